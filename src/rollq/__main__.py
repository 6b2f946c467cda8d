"""`python -m rollq` is the command line."""

from rollq.cli.main import main

if __name__ == "__main__":
    main()
