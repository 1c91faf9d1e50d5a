"""The few rules that Streamlit has no option for."""

import streamlit as st

SIDE_BY_SIDE = "side_by_side"
ICONS_ONLY = "icons_only"
LAST_CELL_BELOW = "last_cell_below"
FIRST_CELL_ABOVE = "first_cell_above"
TURNED = "turned"

# Columns stack where there is no room for two charts; Streamlit itself stacks them on telephones only. Texts in charts
# take the theme's text colour instead of a grey with too little contrast; hover labels have colours of their own.
# Buttons that show only their icon keep their name for those who do not see it. On a narrow screen the last cell of a
# table, a sentence, stands below its row, or the first one above it; a table of many columns turns them into rows.
# What is chosen in a list stands on the primary colour, which is light in the dark theme and needs dark text there.
_RULES = f"""<style>
[class*="st-key-{SIDE_BY_SIDE}"] [data-testid="stColumn"] {{min-width: min(100%, 24rem)}}
.st-key-{ICONS_ONLY} button [data-testid="stMarkdownContainer"] {{position: absolute; clip-path: inset(50%)}}
.st-key-{LAST_CELL_BELOW} td:last-child {{white-space: normal}}
.st-key-{TURNED} :is(td, th) {{padding-inline: 0.4rem !important}}
@media (max-width: 62rem) {{
    .st-key-{LAST_CELL_BELOW} tr {{display: flex; flex-wrap: wrap}}
    .st-key-{LAST_CELL_BELOW} :is(td, th) {{flex: 1 1 30%; min-width: 0; white-space: normal; border: none}}
    .st-key-{LAST_CELL_BELOW} th:last-child {{display: none}}
    .st-key-{LAST_CELL_BELOW} td:last-child {{flex-basis: 100%; border-bottom: 1px solid #8884}}
    .st-key-{LAST_CELL_BELOW} td:last-child::before {{content: "Nearest flip: "; opacity: 0.7}}
    [class*="st-key-{FIRST_CELL_ABOVE}"] tr {{display: flex; flex-wrap: wrap}}
    [class*="st-key-{FIRST_CELL_ABOVE}"] :is(td, th) {{flex: 1 1 17%; min-width: 0; white-space: normal; border: none}}
    [class*="st-key-{FIRST_CELL_ABOVE}_4"] :is(td, th) {{flex: 0 1 24%}}
    [class*="st-key-{FIRST_CELL_ABOVE}"] th * {{font-size: 0.75rem}}
    [class*="st-key-{FIRST_CELL_ABOVE}"] :is(td, th):first-child {{flex-basis: 100%; border-top: 1px solid #8884}}
    [data-testid="stSidebar"] {{max-width: 22.5rem}}
    .st-key-{TURNED} :is(table, tbody) {{display: flex}}
    .st-key-{TURNED} tr {{display: flex; flex-direction: column; flex: 1 0 auto}}
    .st-key-{TURNED} thead {{flex: none; width: 7rem}}
    .st-key-{TURNED} :is(td, th) {{display: flex; align-items: center; height: 2.9rem; line-height: 1.2}}
    .st-key-{TURNED} :is(td, th) {{padding: 0 0.2rem !important; border-bottom: 1px solid #8884 !important}}
}}
[data-testid="stMainBlockContainer"] {{padding-top: 4.5rem}}
[data-testid="stMultiSelect"] :is(span[title], span[title] ~ *) {{color: light-dark(#ffffff, #000000)}}
.js-plotly-plot :is(.infolayer, .xtick, .ytick, .textpoint, .bars) text {{fill: currentColor !important}}
</style>"""


def draw() -> None:
    """Put the rules on the page."""
    st.html(_RULES)
