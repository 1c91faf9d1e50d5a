"""The verify page: a receipt and a fixture in, and whether the one is what the other gives."""

import json

import streamlit as st

from pages.ui import controls, downloads, jobs, notices, state, style, verifying
from pages.ui.uploads import FIXTURE_KINDS, REPLAY_JOB, VERIFY_JOB
from pages.ui.verifying import FIXTURE, RECEIPT, Checked
from polykv_core import Finding
from polykv_core.verify import verification_dict

_MOST_SHOWN = 50
_NAMED = {
    "edited": (":red[:material/edit_off:]", "Edited after sealing"),
    "another_fixture": (":red[:material/report:]", "Another fixture"),
    "numbers_moved": (":red[:material/report:]", "The numbers moved"),
    "no_seal": (":material/lock_open:", "No seal"),
    "another_version": (":material/update:", "Another version, the same numbers"),
    "another_file": (":material/draft:", "Another file, the same content"),
    "last_digits": (":material/decimal_decrease:", "Last digits differ"),
    "unknown_fields": (":material/help:", "Fields that were not checked"),
}


def draw_result(checked: Checked) -> None:
    """The answer in one line, why, and what the receipt says of itself."""
    found, fields = checked.found, checked.fields
    if found.verified:
        st.title(":green[:material/verified:] VERIFIED", anchor=False)
        st.markdown("Replayed anew from the fixture, the receipt's verdict and numbers are what comes out.")
    else:
        st.title(f":red[:material/gpp_bad:] NOT VERIFIED: {_NAMED[found.faults[0].code][1].lower()}", anchor=False)
    with st.container(border=True):
        for finding in (*found.faults, *found.notes):
            draw_finding(finding)
        verdict = "PASSED" if fields["passed"] else "FAILED"
        st.text(f"The receipt says: {verdict} at k = {fields['selected_candidate_k']}")
        st.code(str(fields.get("model_id", "a model replay")), language=None, wrap_lines=True)
    if found.differences:
        st.header("What differs", anchor=False)
        told = [difference.text for difference in found.differences[:_MOST_SHOWN]]
        st.code("\n".join(told), language=None, wrap_lines=True)
        if len(found.differences) > _MOST_SHOWN:
            st.caption(f"And {len(found.differences) - _MOST_SHOWN} more; all of them are in the file below.")
    st.header("Take it away", anchor=False)
    text = json.dumps(verification_dict(found), indent=2, ensure_ascii=False)
    downloads.draw("What was found, as JSON", text.encode(), "verification.json", "download_verification")


def draw_finding(finding: Finding) -> None:
    """A finding by its name, with its sign; the text may quote a file and is shown verbatim."""
    icon, name = _NAMED[finding.code]
    st.markdown(f"{icon} **{name}**")
    st.text(finding.text)


screen = state.screen(controls.choice())
st.header("Is this receipt what the fixture gives?", anchor=False)
with st.container(key=f"{style.SIDE_BY_SIDE}_verify"):
    left, right = st.columns(2, gap="medium")
with left:
    verifying.draw_uploader(
        RECEIPT, "Receipt", ["json", "html"], "Of this program or of the Rust crate, or a report that holds one."
    )
with right:
    verifying.draw_uploader(
        FIXTURE,
        "Fixture or case",
        FIXTURE_KINDS,
        "The captured head, or a compact file that holds it; for a model replay's receipt its case.",
    )
    if verifying.held(FIXTURE) is None and screen.shown is not None:
        st.text(f"Without a file: {screen.shown.source.name}, the fixture on the left.")

st.caption("The receipt brings its gates, ks and options with it; those on the left make no difference here.")

jobs.draw(REPLAY_JOB)
check = verifying.check(screen.shown)
jobs.draw(VERIFY_JOB)
if check.fault:
    notices.draw_fault("The receipt could not be checked.", check.fault)
elif check.cancelled:
    with st.container(border=True):
        st.warning("The check was cancelled.", icon=":material/cancel:")
        st.button("Check it", key="verify_again", on_click=verifying.try_again, icon=":material/replay:")
elif check.missing:
    st.info(check.missing, icon=":material/draft:")
elif check.checked is not None:
    draw_result(check.checked)
else:
    st.markdown(
        "Give a receipt. The fixture is replayed anew with the receipt's gates and options, and every number is held "
        "against it. It tells apart\n\n"
        "- a receipt that was **edited after sealing**,\n"
        "- a receipt of **another fixture**,\n"
        "- **numbers that moved**, by other versions or by somebody who sealed anew,\n"
        "- and what is well: other versions with the same numbers, or the same content in another file."
    )
