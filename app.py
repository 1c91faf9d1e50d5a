"""The frame of the dashboard: page config, the sidebar's controls, and the pages. To run it: streamlit run app.py."""

from pathlib import Path

import streamlit as st

from pages.ui import controls, style

# No icons: the browser would fetch a page's icon from a server of Google's.
PAGES = (
    ("pages/replay/page.py", "Replay", None),
    ("pages/model/page.py", "Model replay", "model-replay"),
    ("pages/about/page.py", "About the numbers", "about"),
)

st.set_page_config(page_title="PolyKV replay", layout="wide", initial_sidebar_state=360)

page = st.navigation(
    [
        st.Page(path, title=title, url_path=url_path, default=url_path is None)
        for path, title, url_path in PAGES
        if Path(__file__).with_name("pages").joinpath(*Path(path).parts[1:]).exists()
    ],
    position="top",
)
style.draw()
with st.sidebar:
    controls.draw()
page.run()
