"""What is odd about a fixture or a replay, beside the verdict."""

from collections.abc import Sequence

import streamlit as st

from polykv_core import Finding


def draw(findings: Sequence[Finding]) -> None:
    """Each finding, in the order of weight."""
    if findings:
        st.markdown("**Before you believe it**")
    for finding in findings:
        st.caption(f":material/warning: {finding.text}")
