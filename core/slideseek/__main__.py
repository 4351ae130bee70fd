"""`python -m slideseek` is the command `slideseek`."""

from slideseek.cli import main

if __name__ == "__main__":
    main()
