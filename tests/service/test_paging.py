"""Lists: filters, order and cursors."""

from eupg.service.access import ServiceRole


def test_pages_hold_every_request_once(empty):
    filed = [empty.file(f"someone {i}") for i in range(7)]
    reviewer = empty.as_role(ServiceRole.REVIEW)
    for order in ("newest", "due"):
        seen, cursor = [], None
        while True:
            params = {"limit": 3, "order": order} | ({} if cursor is None else {"cursor": cursor})
            page = empty.client.get("/v1/requests", params=params, headers=reviewer).json()
            seen += [r["id"] for r in page["requests"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert sorted(seen) == sorted(filed)
        assert seen == (filed if order == "due" else filed[::-1])


def test_filters(empty):
    one = empty.file("filtered")
    empty.act(one, "reject", reason="not our customer")
    reviewer = empty.as_role(ServiceRole.REVIEW)

    def listed(**params):
        return [r["id"] for r in empty.client.get("/v1/requests", params=params, headers=reviewer).json()["requests"]]

    assert listed(state="rejected") == [one]
    assert one in listed(open=False)
    assert one not in listed(open=True)
    assert listed(text=one) == [one]
    assert listed(overdue=True) == []
    assert listed(owner="a-0000000000000000") == []


def test_intake_sees_its_own_requests_alone(empty):
    mine = empty.file("mine")
    other = empty.key("second intake", ServiceRole.INTAKE)
    page = empty.client.get("/v1/requests", headers=other).json()
    assert page["requests"] == []
    assert empty.client.get(f"/v1/requests/{mine}", headers=other).status_code == 404


def test_a_made_up_cursor_is_refused(empty):
    for cursor in ("x", "bnVsbA", "W10", "WyIyMDI2Il0", "WyIyMDI2LTAxLTAxIiwieCJd"):
        for order in ("newest", "due"):
            answer = empty.client.get(
                "/v1/requests", params={"cursor": cursor, "order": order}, headers=empty.as_role(ServiceRole.REVIEW)
            )
            assert answer.status_code == 422, answer.text
