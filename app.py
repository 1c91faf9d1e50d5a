"""The frame of the dashboard: page config, the sidebar's controls, and the pages. To run it: streamlit run app.py."""

import streamlit as st

from pages.ui import controls

st.set_page_config(page_title="PolyKV replay", layout="wide")

page = st.navigation([st.Page("pages/replay/page.py", title="PolyKV replay")])
with st.sidebar:
    controls.draw()
page.run()
