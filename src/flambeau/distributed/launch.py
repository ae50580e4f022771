"""`python -m torch.distributed.launch`: the launcher under its first name; programs read LOCAL_RANK either way."""

from .run import get_args_parser as get_args_parser
from .run import run


def parse_args(args):
    """The options and the program of a command line; --use-env says what is the case anyway."""
    parser = get_args_parser()
    parser.add_argument("--use-env", action="store_true", help="without effect: LOCAL_RANK is always set")
    return parser.parse_args(args)


def main(args=None):
    """Runs a command line."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
