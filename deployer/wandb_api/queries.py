"""The GraphQL documents we send. They use only fields of the SDK's own operations, so that
W&B's servers of every version answer them; `deployer…` ones are the embedded backend's.
"""

from __future__ import annotations

VIEWER = "query Viewer { viewer { id entity username } }"

SWEEP_FIELDS = """
    id name displayName state description config createdAt runCount runCountExpected
"""

RUN_FIELDS = """
    id name displayName state config summaryMetrics exitcode createdAt heartbeatAt
"""

# Fields that only the embedded backend has; requested if it lists them.
OUR_SWEEP_FIELDS = "deployerStopReason"
OUR_RUN_FIELDS = (
    "deployerApart deployerAttempts { number agentName assignedAt endedAt cause exitcode }"
)

GET_SWEEP = f"""
query GetSweep($entity: String, $project: String, $sweep: String!) {{
  project(name: $project, entityName: $entity) {{
    sweep(sweepName: $sweep) {{ {SWEEP_FIELDS} }}
  }}
}}
"""

GET_CREATOR = """
query SweepCreator($entity: String, $project: String, $sweep: String!) {
  project(name: $project, entityName: $entity) { sweep(sweepName: $sweep) { user { username } } }
}
"""

AGENTS = "agents { edges { node { id name host state heartbeatAt } } }"

GET_SNAPSHOT = f"""
query SweepWithRuns($entity: String, $project: String, $sweep: String!, $first: Int!) {{
  project(name: $project, entityName: $entity) {{
    sweep(sweepName: $sweep) {{
      {SWEEP_FIELDS} %(sweep)s {AGENTS}
      runs(first: $first) {{
        pageInfo {{ hasNextPage endCursor }}
        edges {{ node {{ {RUN_FIELDS} %(run)s }} }}
      }}
    }}
  }}
}}
"""

LIST_RUNS = f"""
query SweepRuns(
  $entity: String, $project: String, $sweep: String!, $first: Int!, $cursor: String
) {{
  project(name: $project, entityName: $entity) {{
    sweep(sweepName: $sweep) {{
      runs(first: $first, after: $cursor) {{
        pageInfo {{ hasNextPage endCursor }}
        edges {{ node {{ {RUN_FIELDS} %(run)s }} }}
      }}
    }}
  }}
}}
"""

# The same from the embedded backend, which returns thousands of runs at once.
GET_TABLE = f"""
query SweepWithRunTable($entity: String, $project: String, $sweep: String!) {{
  project(name: $project, entityName: $entity) {{
    sweep(sweepName: $sweep) {{
      {SWEEP_FIELDS} {OUR_SWEEP_FIELDS} {AGENTS} deployerRuns {{ runs endCursor }}
    }}
  }}
}}
"""

NEXT_TABLE = """
query SweepRunTable($entity: String, $project: String, $sweep: String!, $cursor: String) {
  project(name: $project, entityName: $entity) {
    sweep(sweepName: $sweep) { deployerRuns(after: $cursor) { runs endCursor } }
  }
}
"""

LIST_PROJECTS = """
query GetProjects($entity: String, $perPage: Int, $cursor: String) {
  models(entityName: $entity, first: $perPage, after: $cursor) {
    pageInfo { hasNextPage endCursor }
    edges { node { name } }
  }
}
"""

LIST_SWEEPS = f"""
query GetSweeps($entity: String!, $project: String!, $perPage: Int!, $cursor: String) {{
  project(name: $project, entityName: $entity) {{
    sweeps(first: $perPage, after: $cursor) {{
      pageInfo {{ hasNextPage endCursor }}
      edges {{ node {{ {SWEEP_FIELDS} }} }}
    }}
  }}
}}
"""

CREATE_SWEEP = """
mutation UpsertSweep(
  $config: String, $description: String, $entityName: String, $projectName: String,
  $clientMutationId: String
) {
  upsertSweep(input: {
    config: $config, description: $description, entityName: $entityName,
    projectName: $projectName, clientMutationId: $clientMutationId
  }) {
    sweep { id name project { name entity { name } } }
    configValidationWarnings
  }
}
"""

SET_SWEEP_STATE = """
mutation UpsertSweepState(
  $id: ID!, $state: String!, $entityName: String, $projectName: String
) {
  upsertSweep(input: {
    id: $id, state: $state, entityName: $entityName, projectName: $projectName
  }) { sweep { name state } }
}
"""

REOPEN_SWEEP = """
mutation UpsertSweepConfig(
  $id: ID!, $state: String!, $config: String!, $entityName: String, $projectName: String
) {
  upsertSweep(input: {
    id: $id, state: $state, config: $config, entityName: $entityName, projectName: $projectName
  }) { sweep { name state } }
}
"""

LOG_TAIL = """
query RunConsoleLogTail($entity: String!, $project: String!, $run: String!, $last: Int!) {
  project(name: $project, entityName: $entity) {
    run(name: $run) { state logLineCount logLines(last: $last) { edges { node { line } } } }
  }
}
"""

# W&B servers before 0.77 do not know this argument; later ones ignore `after` without it.
PAGINATION = "useImprovedPagination"
LOG_PAGE = """
query RunConsoleLogPage(
  $entity: String!, $project: String!, $run: String!, $after: String, $first: Int!
) {
  project(name: $project, entityName: $entity) {
    run(name: $run) {
      state
      logLineCount
      logLines(first: $first, after: $after, useImprovedPagination: true) {
        edges { node { line } }
        pageInfo { endCursor }
      }
    }
  }
}
"""

CREATE_AGENT_KEY = """
mutation DeployerCreateAgentKey($sweepPath: String!, $agentName: String!, $id: String) {
  deployerCreateAgentKey(input: {
    sweepPath: $sweepPath, agentName: $agentName, clientMutationId: $id
  }) { key }
}
"""

REQUEUE = """
mutation DeployerRequeue($sweepPath: String!, $retries: Int, $id: String) {
  deployerRequeue(input: {
    sweepPath: $sweepPath, retries: $retries, clientMutationId: $id
  }) { requeued }
}
"""

DELETE_SWEEP = """
mutation DeployerDeleteSweep($sweepPath: String!) {
  deployerDeleteSweep(input: { sweepPath: $sweepPath }) { success }
}
"""

STOP_RUN = """
mutation StopRun($id: ID!) { stopRun(input: { id: $id }) { success } }
"""

COUNT_HISTORY = """
query RunHistoryCount($entity: String!, $project: String!, $run: String!) {
  project(name: $project, entityName: $entity) { run(name: $run) { historyLineCount } }
}
"""

HISTORY_PAGE = """
query HistoryPage(
  $entity: String!, $project: String!, $run: String!,
  $minStep: Int64!, $maxStep: Int64!, $pageSize: Int!
) {
  project(name: $project, entityName: $entity) {
    run(name: $run) { history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) }
  }
}
"""

# For several runs at once: the declarations of its variables, and a part for each run.
LOGGED_ROWS = """
query LoggedRows($entity: String!, $project: String!, %s) {
  project(name: $project, entityName: $entity) { %s }
}
"""
LOGGED_ROWS_VARIABLES = "$run{0}: String!, $spec{0}: JSONString!"
LOGGED_ROWS_RUN = "part{0}: run(name: $run{0}) {{ sampledHistory(specs: [$spec{0}]) }}"

RUN_ARTIFACTS = """
query RunOutputArtifacts(
  $entity: String!, $project: String!, $run: String!, $first: Int, $cursor: String
) {
  project(entityName: $entity, name: $project) {
    run(name: $run) {
      artifacts: outputArtifacts(after: $cursor, first: $first) {
        pageInfo { hasNextPage endCursor }
        edges { node {
          id state versionIndex metadata aliases { alias }
          artifactSequence { name } artifactType { name }
        } }
      }
    }
  }
}
"""

RUN_FILES = """
query RunFiles($entity: String!, $project: String!, $run: String!, $first: Int, $cursor: String) {
  project(name: $project, entityName: $entity) {
    run(name: $run) {
      files(first: $first, after: $cursor) {
        pageInfo { hasNextPage endCursor }
        edges { node { name sizeBytes md5 directUrl url(upload: false) } }
      }
    }
  }
}
"""

ARTIFACT_FILES = """
query ArtifactFiles($id: ID!, $first: Int, $cursor: String) {
  artifact(id: $id) {
    files(first: $first, after: $cursor) {
      pageInfo { hasNextPage endCursor }
      edges { node { name: displayName sizeBytes digest md5 url directUrl } }
    }
  }
}
"""
