"""``python -m scaling_study STAGE``: see ``cli``."""

from scaling_study.cli import main

if __name__ == "__main__":
    main()
