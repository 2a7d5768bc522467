"""The page's style sheet and its script; the page is complete without the script."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --page: #fff; --soft: #57606a; --over: #b42318; --link: #0a58ca; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --page: #15181c; --soft: #a3adb8; --over: #f97066; --link: #84b6ff; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
html, body { color: var(--text); background: var(--page); } a { color: var(--link); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
thead th { vertical-align: bottom; } td { white-space: nowrap; } tbody th { font-weight: inherit; }
th:first-child, td:first-child, .facts td { text-align: left; }
.facts th { white-space: nowrap; vertical-align: top; } .facts td { white-space: normal; overflow-wrap: anywhere; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; text-align: inherit; cursor: pointer; }
th[aria-sort=ascending] button::after { content: " \\2191"; } th[aria-sort=descending] button::after { content: " \\2193"; }
.commands dt { font-weight: 600; } .commands dd { margin: 0 0 .6rem; } code { overflow-wrap: anywhere; }
.copy { font: inherit; font-size: 13px; color: inherit; background: none; border: 1px solid currentColor; border-radius: 4px; cursor: pointer; }
pre.recipe { overflow-x: auto; font-size: 13px; } details { margin: .4rem 0; }
h1, summary, dt { overflow-wrap: anywhere; }
.over { color: var(--over); } small.over { display: block; }
caption, .note { color: var(--soft); text-align: left; font-size: 13px; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; width: max-content; min-width: 100%; max-width: calc(100vw - 2rem); }
.scroll { position: relative; left: 50%; transform: translateX(-50%); } ul.note { padding-left: 1.2rem; }
@media print {
  :root { --text: #000; --page: #fff; --soft: #57606a; --over: #b42318; color-scheme: light; }
  body { max-width: none; margin: 0; padding: 0; } .copy { display: none; } pre.recipe { white-space: pre-wrap; overflow-wrap: anywhere; }
  .scroll { overflow: visible; width: auto; max-width: none; position: static; transform: none; }
  table { font-size: 10px; } th, td { padding: .2rem .3rem; } th:first-child { white-space: normal; overflow-wrap: anywhere; } details, svg, tr { break-inside: avoid; }
}
"""

SCRIPT = """
for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    let copied = false;
    try { await navigator.clipboard.writeText(code.textContent); copied = true; } catch { copied = document.execCommand("copy"); }
    button.textContent = copied ? "Copied" : "Selected";
  });
}
const valueOf = (row, column) => row.cells[column].dataset.value;
const compare = (a, b) => isNaN(a) || isNaN(b) ? a.localeCompare(b, undefined, {numeric: true}) : a - b;
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((one, two) => {
        const a = valueOf(one, column), b = valueOf(two, column);
        return (a === "") - (b === "") || sign * compare(a, b);
      }));
    });
  });
}
"""
"""Buttons that copy commands, and heads that sort their table; rows without a value stay last."""
