from __future__ import annotations

import socket

from builder.host.registry_service import free_ports


def test_taken_ports_are_passed_over_whoever_listens_and_on_which_address():
    with socket.create_server(("127.0.0.1", 0)) as here:
        port = here.getsockname()[1]
        assert port not in list(free_ports(port, 3))
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        port = everywhere.getsockname()[1]
        assert list(free_ports(port, 1)) == []


def test_a_port_whose_server_has_just_ended_is_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()
    assert list(free_ports(port, 1)) == [port]


def test_there_is_no_port_above_the_last():
    assert all(port <= 65535 for port in free_ports(65530, 100))
