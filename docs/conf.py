"""The site: `tox run -e docs` builds it, every warning being an error."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "JCW"
version = release = version_of("jcw-core")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "links",
    "names",
    "recipe_keys",
]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
smartquotes = False  # which make a dash of an option
copybutton_exclude = ".linenos, .gp, .go"

# The command and the packages are read without torch and without the compiled engine.
autodoc_mock_imports = ["torch", "jcw_kernels._engine"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 120

# Names without an entry stay text: other projects', and types that no package has at its door.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"\w+\..*|Variant")]
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "JCW"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
