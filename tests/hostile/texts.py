"""Texts that break what does not quote them, and the canaries by which that shows."""

# A shell that reads one of these makes a file in its working directory; a page that reads them
# as HTML sets a variable of its window.
CANARY = "CANARY"
OWNED = "hostileOwned"

QUOTES = "it's \"quoted\" and `ticked` \\ 'twice'"
LINES = "first\nsecond\r\n\tthird\x0b\x0c\u2028end"
SHELL = (
    f"$(touch {CANARY}-a) `touch {CANARY}-b`; touch {CANARY}-c | touch {CANARY}-d & "
    f"touch {CANARY}-e\ntouch {CANARY}-f > {CANARY}-g && ${{IFS}} $HOME !! * ~ #"
)
HTML = (
    f"<script>window.{OWNED}=1</script><img src=x onerror=window.{OWNED}=2>"
    f"<svg onload=window.{OWNED}=3></style></textarea></script><!-- ]]> &lt;b&gt; &amp; "
    f'" onmouseover="window.{OWNED}=4" <a href="javascript:window.{OWNED}=5">x</a>'
)
TEMPLATE = "{{ 7 * 7 }} {% raw %} {# #} %s %(x)d ${x} $x {0!r}"
RIGHT_TO_LEFT = (
    "\u202eright to left \u05e2\u05d1\u05e8\u05d9\u05ea "
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u2066"
)
FOUR_BYTES = "\U0001f600 \U00010348 \U0001d11e \U000e0041 e\u0301\u0327"
LONG = "W" * 10_000
# Clears the screen, sets the terminal's title, and hides what follows.
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b[8m\x9b31m\x7f\x08\x08\r"

ALL = {
    "quotes": QUOTES, "lines": LINES, "shell": SHELL, "html": HTML, "template": TEMPLATE,
    "right to left": RIGHT_TO_LEFT, "four bytes": FOUR_BYTES, "long": LONG, "escapes": ESCAPES,
}  # fmt: skip
# What a file's name can hold of them: no / and no NUL, at most 255 bytes.
NAME = (
    f'it\'s "a" `touch {CANARY}-h`;$(touch {CANARY}-i)\n<script>window.{OWNED}=6<br>'
    "\u202e\u05e2\u05d1 \U0001f600 \x1b[2J&amp; %s #"
)
