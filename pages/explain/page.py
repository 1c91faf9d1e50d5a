"""The explanation: why a head passes or fails, from the first sentence down to the row that did it."""

import streamlit as st

from pages.ui import controls, explain_state, explained, findings, jobs, ladder, microscope, notices, query_rows, state
from pages.ui.uploads import CHANGES_JOB, EXPLAIN_JOB, REPLAY_JOB

screen = state.screen(controls.choice())
jobs.draw(REPLAY_JOB)
notices.draw(screen)
if screen.shown is None:
    st.stop()

part = explain_state.explanation(screen.shown, explained.draw_heading(screen.shown))
jobs.draw(EXPLAIN_JOB)
explained.draw_notices(part)
if part.value is None:
    st.stop()

explanation = part.value
explained.draw_reasons(explanation, screen.shown.receipt)
findings.draw(explanation.findings)
metric = ladder.draw(explanation)

changes = explain_state.changes(screen.shown, explanation)
st.header("What would help", anchor=False)
jobs.draw(CHANGES_JOB)
explained.draw_notices(changes)
if changes.value:
    ladder.draw_changes(changes.value)

microscope.draw(explanation)
query_rows.draw(explanation, metric)
explained.draw_statistics(explanation)
explained.draw_download(explanation, changes.value or (), screen.shown)
