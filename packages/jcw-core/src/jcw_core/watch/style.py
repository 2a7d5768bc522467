"""What the page of a run that goes on has beside the report's style sheet: a bar, and the script that asks again."""

from __future__ import annotations

LOOKS = """
progress { width: 14rem; max-width: 100%; vertical-align: middle; accent-color: #2563eb; } ul.note { list-style: none; padding-left: 0; }
"""

SCRIPT = """
const place = document.querySelector("main"), lost = document.querySelector("#lost");
let before = "";
async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch("now", {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.statusText);
      if (answer.status === 204) { location.reload(); return; }
      const text = await answer.text(), at = [scrollX, scrollY];
      if (text !== before) { place.innerHTML = before = text; scrollTo(...at); }
      lost.hidden = true;
    } catch { lost.hidden = false; }
  }
  setTimeout(look, 2000);
}
setTimeout(look, 2000);
"""
"""Puts in what has changed, and loads the report once there is one; a page that nobody sees does not ask."""
