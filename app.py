"""The frame of the dashboard: page config, the sidebar's controls, and the pages. To run it: streamlit run app.py."""

import streamlit as st

from pages.ui import controls, style

# No icons: the browser would fetch a page's icon from a server of Google's.
PAGES = (
    ("pages/replay/page.py", "Replay", None),
    ("pages/explain/page.py", "Explain", "explain"),
    ("pages/sweep/page.py", "Sweep", "sweep"),
    ("pages/verify/page.py", "Verify", "verify"),
    ("pages/history/page.py", "History", "history"),
    ("pages/model/page.py", "Model replay", "model-replay"),
    ("pages/about/page.py", "About the numbers", "about"),
)
WITH_FIXTURE = {"Replay", "Explain", "Sweep", "Verify"}

st.set_page_config(page_title="PolyKV replay", layout="wide", initial_sidebar_state=384)

page = st.navigation(
    [st.Page(path, title=title, url_path=url_path, default=url_path is None) for path, title, url_path in PAGES],
    position="top",
)
style.draw()
with st.sidebar:
    controls.draw(with_fixture=page.title in WITH_FIXTURE)
page.run()
