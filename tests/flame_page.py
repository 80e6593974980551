"""A page with flamegraphs as the report has them: its style, its policy, its scripts."""

import base64
import hashlib

import jinja2
from markupsafe import Markup

from scaling_study.rendering import report

PAGE = """{% from "flame.html.j2" import flamegraph %}
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; img-src data:; \
script-src 'sha256-{{ script_hash }}'">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">
<title>Flamegraphs</title><style>{{ css }}</style></head>
<body><button class="button" id="theme" type="button" hidden>Dark theme</button>
<main class="wide">{% for one in flames %}{{ flamegraph(one) }}{% endfor %}</main>
<script>{{ script }}</script></body></html>"""


def page(flames):
    """Render the page's text."""
    scripts = [(report.TEMPLATES / name).read_text() for name in ("page.js", "flame.js")]
    script = "\n".join(scripts)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(report.TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(PAGE).render(
        flames=flames,
        css=Markup(report._css()),  # noqa: S704 (ours)
        script=Markup(script),  # noqa: S704 (ours)
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
