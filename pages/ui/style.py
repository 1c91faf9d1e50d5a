"""The few rules that Streamlit has no option for."""

import streamlit as st

SIDE_BY_SIDE = "side_by_side"

# Columns stack where there is no room for two charts; Streamlit itself stacks them on telephones only. Texts in charts
# take the theme's text colour instead of a grey with too little contrast; hover labels have colours of their own.
_RULES = f"""<style>
[class*="st-key-{SIDE_BY_SIDE}"] [data-testid="stColumn"] {{min-width: min(100%, 24rem)}}
.js-plotly-plot :is(.infolayer, .xtick, .ytick, .textpoint) text {{fill: currentColor !important}}
</style>"""


def draw() -> None:
    """Put the rules on the page."""
    st.html(_RULES)
