"""Ports for processes to meet at."""

import socket


def get_socket_with_port():
    """A socket that listens at a port which the system has chosen.

    >>> from flambeau.distributed.elastic.utils.distributed import get_socket_with_port
    >>> with get_socket_with_port() as listening:
    ...     listening.getsockname()[1] > 0
    True
    """
    return socket.create_server(("localhost", 0), backlog=0)


def get_free_port():
    """The number of a port that nothing listens at; another process may take it before it is used."""
    with get_socket_with_port() as listening:
        return listening.getsockname()[1]
