"""cacheops: Django's queries are cached, and what is saved invalidates exactly the right ones."""

import sys

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "cacheops"],
    CACHEOPS_REDIS=f"redis://127.0.0.1:{sys.argv[1]}/2",
    CACHEOPS_DEFAULTS={"timeout": 60},
    CACHEOPS={"auth.*": {"ops": "all"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
)
django.setup()

from cacheops import cached, cached_as, invalidate_all, invalidate_model, invalidate_obj  # noqa: E402
from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402


def queries(what):
    """The number of queries that reach the database."""
    with CaptureQueriesContext(connection) as seen:
        what()
    return len(seen)


def queries_are_cached_until_their_rows_change():
    call_command("migrate", verbosity=0)
    invalidate_all()
    ann, bob = User.objects.create(username="ann"), User.objects.create(username="bob")
    first = lambda: User.objects.get(username="ann")  # noqa: E731
    second = lambda: list(User.objects.filter(username="bob", is_staff=False))  # noqa: E731
    count = lambda: User.objects.filter(is_active=True).count()  # noqa: E731
    assert [queries(what) for what in (first, second, count)] == [1, 1, 1]
    assert [queries(what) for what in (first, second, count)] == [0, 0, 0]
    ann.first_name = "Ann"
    ann.save()
    assert [queries(what) for what in (first, second)] == [1, 0], "not exactly the changed row's query is forgotten"
    assert first().first_name == "Ann"
    bob.is_staff = True
    bob.save()
    assert queries(second) == 1 and second() == []
    User.objects.filter(pk=bob.pk).invalidated_update(is_staff=False)
    assert second() == [bob]


def relations_functions_and_models_are_invalidated():
    ann, group = User.objects.get(username="ann"), Group.objects.create(name="staff")
    members = lambda: list(User.objects.filter(groups__name="staff"))  # noqa: E731
    assert members() == [] and queries(members) == 0
    ann.groups.add(group)
    assert members() == [ann] and queries(members) == 0
    calls = []

    @cached_as(User, timeout=60)
    def names():
        calls.append(1)
        return sorted(User.objects.values_list("username", flat=True))

    @cached(timeout=60)
    def plain(n):
        calls.append(n)
        return n * n

    assert names() == names() == ["ann", "bob"] and len(calls) == 1
    User.objects.create(username="cid")
    assert names() == ["ann", "bob", "cid"] and len(calls) == 2
    assert plain(7) == plain(7) == 49 and len(calls) == 3
    plain.invalidate(7)
    assert plain(7) == 49 and len(calls) == 4
    invalidate_obj(ann)
    assert queries(members) == 1
    invalidate_model(Group)
    assert queries(members) == 1
    for n in range(200):
        list(User.objects.filter(username=f"user{n}"))
    assert queries(lambda: list(User.objects.filter(username="user7"))) == 0
    invalidate_model(User)
    assert queries(lambda: list(User.objects.filter(username="user7"))) == 1


def transactions_see_their_own_rows():
    everyone = lambda: User.objects.count()  # noqa: E731
    before = everyone()
    try:
        with transaction.atomic():
            User.objects.create(username="temporary")
            assert everyone() == before + 1
            raise InterruptedError
    except InterruptedError:
        pass
    assert everyone() == before
    invalidate_all()


if __name__ == "__main__":
    for check in (queries_are_cached_until_their_rows_change, relations_functions_and_models_are_invalidated,
                  transactions_see_their_own_rows):
        check()
        print(f"ok: cacheops: {check.__name__.replace('_', ' ')}", flush=True)
