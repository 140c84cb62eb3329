"""Users, entities and projects as the SDK asks for them, and what this server refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.backend.client import UPSERT_BUCKET, Client
from tests.conftest import ServedBackend

USERS = """
query SearchUsers($wanted: String) { users(query: $wanted) { edges { node { username } } } }
"""
TEAM = """
query GetTeamEntity($name: String!) { entity(name: $name) { id name available photoUrl readOnly
  readOnlyAdmin isTeam entityType privateOnly storageBytes codeSavingEnabled defaultAccess isPaid
  members { id admin pending email username name photoUrl accountType apiKey } } }
"""
UPSERT_MODEL = """
mutation UpsertModel($name: String!, $id: String, $entity: String!, $description: String,
                     $repo: String)
{ upsertModel(input: {id: $id, name: $name, entityName: $entity, description: $description,
                      repo: $repo}) { model { name } inserted } }
"""
VIEWS = """
query ProjectViews($project: String!, $reportLimit: Int!, $viewType: String = "runs") {
  project(name: $project) { allViews(viewType: $viewType, first: $reportLimit)
    { edges { node { id spec } cursor } pageInfo { endCursor hasNextPage } } } }
"""
REWIND = """
mutation RewindRun($runName: String!, $project: String, $metricName: String!, $metricValue: Float!)
{ rewindRun(input: {runName: $runName, projectName: $project, metricName: $metricName,
                    metricValue: $metricValue}) { rewoundRun { id historyLineCount } } }
"""
SETTINGS = """
query ProbeServerSettings { ServerSettingsType: __type(name: "ServerSettings")
  { fields { name } } }
"""


@pytest.fixture
def client(backend: ServedBackend) -> Client:
    return Client.of(backend, "people")


def test_users_are_found_by_the_beginning_or_the_end_of_their_names(client: Client) -> None:
    for wanted, expected in (("tes", ["tester"]), ("ster", ["tester"]), ("somebody", [])):
        edges = client.ask(USERS, wanted=wanted)["users"]["edges"]
        assert [edge["node"]["username"] for edge in edges] == expected


def test_an_entity_is_a_team_of_one(client: Client) -> None:
    entity = client.ask(TEAM, name=client.entity)["entity"]
    assert (entity["name"], entity["isTeam"], entity["defaultAccess"]) == (
        "tester",
        False,
        "PRIVATE",
    )
    assert [member["username"] for member in entity["members"]] == ["tester"]
    assert entity["members"][0]["apiKey"] is None
    assert entity["members"][0]["accountType"] == "USER"
    # Every run of a team's asks this; create_team of the SDK shows no refusal but that of the team.
    organization = '{ entity(name: "somebody") { organization { coreWeaveOrganizationId } } }'
    assert client.ask(organization)["entity"] is None
    refused = client.post(TEAM, name="somebody")
    assert (refused.status_code, "this server has no team somebody" in refused.text) == (404, True)


def test_a_project_is_made_once_and_reports_are_refused(client: Client) -> None:
    made = [client.ask(UPSERT_MODEL, name="made", entity=client.entity) for _ in range(2)]
    assert [reply["upsertModel"]["inserted"] for reply in made] == [True, False]
    refused = client.post(VIEWS, project="made", reportLimit=5)
    assert (refused.status_code, "this server keeps no reports" in refused.text) == (400, True)


def test_sync_of_old_clients_finds_server_settings(client: Client) -> None:
    found = client.ask(SETTINGS)["ServerSettingsType"]["fields"]
    assert found == [{"name": "serverMessages"}]


def test_forks_and_rewinds_are_refused(client: Client) -> None:
    client.init_run("origin")
    branch = {"_wandb": {"value": {"branch_point": {"run_id": "origin", "step": 1}}}}
    forked = client.post(UPSERT_BUCKET, name="forked", host="h", config=json.dumps(branch))
    rewound = client.post(REWIND, runName="origin", metricName="_step", metricValue=1)
    assert [reply.status_code for reply in (forked, rewound)] == [400, 400]
    assert [reply.json()["errors"][0]["message"] for reply in (forked, rewound)] == [
        "this server cannot fork runs (start a new run, without fork_from)",
        "this server cannot rewind runs (start a new run, without resume_from)",
    ]
    assert client.run("forked") is None


# As W&B documents it for several processes of one run.
SHARED = """
import sys, wandb
settings = wandb.Settings(mode="shared", x_label=sys.argv[2], x_primary=sys.argv[2] == "rank0")
with wandb.init(project=sys.argv[1], id="many", settings=settings) as run:
    run.log({"loss": 1, "who": sys.argv[2]})
"""


def test_several_processes_of_one_run_are_refused(client: Client) -> None:
    """What W&B calls mode="shared": each would write over the others' lines."""
    first = {"name": "many", "project": client.project, "host": "h", "config": "{}"}
    later = {key: first[key] for key in ("name", "project", "config")}
    replies = [
        requests.post(
            f"{client.url}/graphql",
            json={"query": UPSERT_BUCKET, "variables": variables},
            auth=("api", client.key),
            headers={"X-WANDB-USE-ASYNC-FILESTREAM": "true"},
            timeout=30,
        )
        for variables in (first, later, first)
    ]
    assert [reply.status_code for reply in replies] == [200, 200, 400]
    assert "lets one process write a run, not several" in replies[2].text


def test_a_second_process_does_not_replace_the_rows_of_a_shared_run(
    backend: ServedBackend, tmp_path: Path
) -> None:
    project = f"shared-{uuid.uuid4().hex[:8]}"
    ranks = [
        subprocess.run(
            [sys.executable, "-c", SHARED, project, rank],
            cwd=tmp_path,
            env={**os.environ, **backend.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        for rank in ("rank0", "rank1")
    ]
    assert [rank.returncode for rank in ranks] == [0, 1]
    assert "lets one process write a run, not several" in ranks[1].stderr
    kept = Client(backend.url, backend.key, backend.entity, project).run("many")
    assert kept
    assert (kept["state"], json.loads(kept["summaryMetrics"])["who"]) == ("finished", "rank0")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("{ viewer { nonsense } }", 'Cannot query field "nonsense" on type "User".'),
        ("{ viewer(x: 1) { id } }", 'Unknown argument "x" on field "viewer" of type "Query".'),
        ("query Q($x: Nonsense) { viewer { id } }", 'Unknown type "Nonsense".'),
        ("{ viewer { id }", "Syntax Error: Expected Name, found <EOF>."),
    ],
)
def test_unknown_questions_are_refused_in_wandbs_words(
    client: Client, query: str, sentence: str
) -> None:
    refused = client.post(query)
    assert refused.status_code == 400
    assert sentence in [error["message"] for error in refused.json()["errors"]]


@pytest.mark.parametrize(
    ("query", "feature"),
    [
        ("mutation { upsertView(input: {}) { view { id } } }", "reports"),
        (
            "mutation M($i: CreateFilterTriggerInput!) { createFilterTrigger(input: $i) { x } }",
            "auto",
        ),
        ('{ entity(name: "x") { integrations { edges { node { id } } } } }', "integrations"),
        ("mutation { createUser(input: {}) { user { id } } }", "deployer backend user add"),
        ("mutation { createTeam(input: {}) { entity { id } } }", "teams"),
        ("mutation { createRunQueue(input: {}) { success } }", "launch queues"),
        ('{ organization(name: "x") { id } }', "registries"),
        ("mutation { createCustomChart(input: {}) { chart { id } } }", "custom charts"),
    ],
)
def test_a_feature_that_is_not_there_is_refused_by_name(
    client: Client, query: str, feature: str
) -> None:
    refused = client.post(query)
    (error,) = refused.json()["errors"]
    assert refused.status_code == 400
    assert feature in error["message"]


def test_keys_have_names_and_never_themselves(client: Client) -> None:
    keys = "{ viewer { apiKeys { edges { node { id name description } } } } }"
    edges = client.ask(keys)["viewer"]["apiKeys"]["edges"]  # other tests give this user more
    assert edges
    assert all(edge["node"]["name"].startswith("key ") for edge in edges)
    assert client.key not in str(edges)
