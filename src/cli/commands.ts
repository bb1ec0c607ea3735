import type { CommandEntry } from "./command-entry.ts";
import { ENTITY_TOTALS, PLAN_COMMANDS, SYSTEM_TOTALS } from "./commands-plans.ts";
import { EVENT_COMMANDS, LEASE_COMMANDS } from "./commands-service.ts";
import { STACK_COMMANDS } from "./commands-stack.ts";
import { USAGE_COMMANDS } from "./commands-usage.ts";

export type { CommandEntry } from "./command-entry.ts";
export { GROUPS } from "./command-groups.ts";

// One entry a command: its own file, with its options and whatever it imports, is loaded only when it is called.
export const COMMANDS: readonly CommandEntry[] = [
  {
    path: ["init"],
    summary: "Create the store, or upgrade a file to the newest schema",
    load: async () => (await import("./commands/init.ts")).init,
  },
  {
    path: ["doctor"],
    summary: "Check the store, namespace, schema, clock and permissions",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    path: ["sweep"],
    summary: "Remove idle buckets and old records of a PostgreSQL store, to the end",
    load: async () => (await import("./commands/sweep.ts")).sweep,
  },
  {
    path: ["version"],
    summary: "Show the versions of the tool, Node and the store",
    load: async () => (await import("./commands/version.ts")).version,
  },
  {
    path: ["completion"],
    summary: "Print a script for shell completion",
    load: async () => (await import("./commands/completion.ts")).completion,
  },
  {
    path: ["entity", "create"],
    summary: "Create an entity",
    load: async () => (await import("./commands/entity-create.ts")).entityCreate,
  },
  {
    path: ["entity", "show"],
    summary: "Show an entity",
    load: async () => (await import("./commands/entity-show.ts")).entityShow,
  },
  {
    path: ["entity", "update"],
    summary: "Change an entity",
    load: async () => (await import("./commands/entity-update.ts")).entityUpdate,
  },
  {
    path: ["entity", "delete"],
    summary: "Delete an entity with its limits, buckets and usage",
    load: async () => (await import("./commands/entity-delete.ts")).entityDelete,
  },
  {
    path: ["entity", "list"],
    summary: "List entities: all, those of a plan, or those with own limits",
    load: async () => (await import("./commands/entity-list.ts")).entityList,
  },
  {
    path: ["entity", "children"],
    summary: "List the children of an entity",
    load: async () => (await import("./commands/entity-children.ts")).entityChildren,
  },
  {
    path: ["entity", "set-limits"],
    summary: "Set the limits of an entity",
    load: async () => (await import("./commands/entity-set-limits.ts")).entitySetLimits,
  },
  {
    path: ["entity", "get-limits"],
    summary: "Show the limits set for an entity",
    load: async () => (await import("./commands/entity-get-limits.ts")).entityGetLimits,
  },
  {
    path: ["entity", "delete-limits"],
    summary: "Delete the limits of an entity",
    load: async () => (await import("./commands/entity-delete-limits.ts")).entityDeleteLimits,
  },
  {
    path: ["entity", "list-limits"],
    summary: "List all limits set for an entity, on every resource",
    load: async () => (await import("./commands/entity-list-limits.ts")).entityListLimits,
  },
  ...ENTITY_TOTALS,
  {
    path: ["resource", "set-defaults"],
    summary: "Set the default limits of a resource",
    load: async () => (await import("./commands/resource-set-defaults.ts")).resourceSetDefaults,
  },
  {
    path: ["resource", "get-defaults"],
    summary: "Show the default limits of a resource",
    load: async () => (await import("./commands/resource-get-defaults.ts")).resourceGetDefaults,
  },
  {
    path: ["resource", "delete-defaults"],
    summary: "Delete the default limits of a resource",
    load: async () => (await import("./commands/resource-delete-defaults.ts")).resourceDeleteDefaults,
  },
  {
    path: ["resource", "list"],
    summary: "List the resources with default limits",
    load: async () => (await import("./commands/resource-list.ts")).resourceList,
  },
  {
    path: ["resource", "capacity"],
    summary: "Show what all entities together have left of a limit",
    load: async () => (await import("./commands/resource-capacity.ts")).resourceCapacity,
  },
  ...PLAN_COMMANDS,
  {
    path: ["system", "set-defaults"],
    summary: "Set the system-wide default limits and what happens in an outage",
    load: async () => (await import("./commands/system-set-defaults.ts")).systemSetDefaults,
  },
  {
    path: ["system", "get-defaults"],
    summary: "Show the system-wide default limits",
    load: async () => (await import("./commands/system-get-defaults.ts")).systemGetDefaults,
  },
  {
    path: ["system", "delete-defaults"],
    summary: "Delete the system-wide default limits",
    load: async () => (await import("./commands/system-delete-defaults.ts")).systemDeleteDefaults,
  },
  ...SYSTEM_TOTALS,
  {
    path: ["access", "set"],
    summary: "Disable an entity or resource, or bypass or enforce its limits",
    load: async () => (await import("./commands/access.ts")).accessSet,
  },
  {
    path: ["access", "show"],
    summary: "Show the access set for exactly this entity, resource or pair",
    load: async () => (await import("./commands/access.ts")).accessShow,
  },
  {
    path: ["cascade", "set"],
    summary: "Override whether parents are charged",
    load: async () => (await import("./commands/cascade.ts")).cascadeSet,
  },
  {
    path: ["cascade", "show"],
    summary: "Show the cascade set for exactly this entity, resource or pair",
    load: async () => (await import("./commands/cascade.ts")).cascadeShow,
  },
  {
    path: ["namespace", "register"],
    summary: "Create namespaces",
    load: async () => (await import("./commands/namespace-register.ts")).namespaceRegister,
  },
  {
    path: ["namespace", "list"],
    summary: "List namespaces",
    load: async () => (await import("./commands/namespace-list.ts")).namespaceList,
  },
  {
    path: ["namespace", "show"],
    summary: "Show a namespace",
    load: async () => (await import("./commands/namespace-show.ts")).namespaceShow,
  },
  {
    path: ["namespace", "delete"],
    summary: "Delete a namespace; its data stays until it is purged",
    load: async () => (await import("./commands/namespace-delete.ts")).namespaceDelete,
  },
  {
    path: ["namespace", "recover"],
    summary: "Recover a deleted namespace",
    load: async () => (await import("./commands/namespace-recover.ts")).namespaceRecover,
  },
  {
    path: ["namespace", "orphans"],
    summary: "List deleted namespaces that still have data",
    load: async () => (await import("./commands/namespace-orphans.ts")).namespaceOrphans,
  },
  {
    path: ["namespace", "purge"],
    summary: "Delete the data of a deleted namespace permanently",
    load: async () => (await import("./commands/namespace-purge.ts")).namespacePurge,
  },
  {
    path: ["acquire"],
    summary: "Acquire tokens",
    load: async () => (await import("./commands/acquire.ts")).acquire,
  },
  {
    path: ["available"],
    summary: "Show what an entity and its parents have left on a resource",
    load: async () => (await import("./commands/available.ts")).available,
  },
  {
    path: ["explain"],
    summary: "Explain which limits apply, where they come from, and whether a request fits",
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    path: ["bucket", "show"],
    summary: "Show one bucket, without its parents",
    load: async () => (await import("./commands/bucket-show.ts")).bucketShow,
  },
  {
    path: ["bucket", "list"],
    summary: "List buckets of an entity, a resource, or all",
    load: async () => (await import("./commands/bucket-list.ts")).bucketList,
  },
  {
    path: ["bucket", "reset"],
    summary: "Fill a bucket and cancel its debt",
    load: async () => (await import("./commands/bucket-reset.ts")).bucketReset,
  },
  {
    path: ["bucket", "top-up"],
    summary: "Add tokens to a bucket",
    load: async () => (await import("./commands/bucket-top-up.ts")).bucketTopUp,
  },
  {
    path: ["watch"],
    summary: "Watch buckets live",
    load: async () => (await import("./commands/watch.ts")).watch,
  },
  ...USAGE_COMMANDS,
  ...LEASE_COMMANDS,
  ...EVENT_COMMANDS,
  {
    path: ["audit", "list"],
    summary: "List changes, newest first",
    load: async () => (await import("./commands/audit-list.ts")).auditList,
  },
  {
    path: ["audit", "follow"],
    summary: "Follow changes as they happen",
    load: async () => (await import("./commands/audit-follow.ts")).auditFollow,
  },
  {
    path: ["audit", "verify"],
    summary: "Verify that the archive is complete and undamaged",
    load: async () => (await import("./commands/audit-verify.ts")).auditVerify,
  },
  {
    path: ["limits", "validate"],
    summary: "Check a manifest without opening a store",
    load: async () => (await import("./commands/limits-validate.ts")).limitsValidate,
  },
  {
    path: ["limits", "plan"],
    summary: "Show what applying a manifest would change",
    load: async () => (await import("./commands/limits-plan.ts")).limitsPlan,
  },
  {
    path: ["limits", "apply"],
    summary: "Apply a manifest to a namespace",
    load: async () => (await import("./commands/limits-apply.ts")).limitsApply,
  },
  {
    path: ["limits", "diff"],
    summary: "Show what changed since the last apply, and who changed it",
    load: async () => (await import("./commands/limits-diff.ts")).limitsDiff,
  },
  {
    path: ["limits", "export"],
    summary: "Export a namespace as a manifest",
    load: async () => (await import("./commands/limits-export.ts")).limitsExport,
  },
  {
    path: ["limits", "schema"],
    summary: "Print the JSON Schema of manifests",
    load: async () => (await import("./commands/limits-schema.ts")).limitsSchema,
  },
  {
    path: ["limits", "cfn-template"],
    summary: "Print a manifest as a CloudFormation resource",
    load: async () => (await import("./commands/limits-cfn-template.ts")).limitsCfnTemplate,
  },
  {
    path: ["migrate"],
    summary: "Migrate a table from an earlier schema",
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    path: ["aggregate"],
    summary: "Archive audit events and sweep a table, without a Lambda function",
    load: async () => (await import("./commands/aggregate.ts")).aggregate,
  },
  {
    path: ["serve"],
    summary: "Serve limits over HTTP, with a dashboard",
    load: async () => (await import("./commands/serve.ts")).serve,
  },
  {
    path: ["token", "add"],
    summary: "Create a token for the HTTP service",
    load: async () => (await import("./commands/token-add.ts")).tokenAdd,
  },
  {
    path: ["token", "list"],
    summary: "List the tokens in a file",
    load: async () => (await import("./commands/token-list.ts")).tokenList,
  },
  {
    path: ["token", "remove"],
    summary: "Remove a token",
    load: async () => (await import("./commands/token-remove.ts")).tokenRemove,
  },
  {
    path: ["local", "up"],
    summary: "Start DynamoDB Local in the background",
    load: async () => (await import("./commands/local-up.ts")).localUp,
  },
  {
    path: ["local", "down"],
    summary: "Stop DynamoDB Local",
    load: async () => (await import("./commands/local-down.ts")).localDown,
  },
  {
    path: ["local", "status"],
    summary: "Show whether and where DynamoDB Local is running",
    load: async () => (await import("./commands/local-status.ts")).localStatus,
  },
  {
    path: ["local", "env"],
    summary: "Print the environment variables for using DynamoDB Local",
    load: async () => (await import("./commands/local-env.ts")).localEnv,
  },
  {
    path: ["local", "logs"],
    summary: "Show the log of DynamoDB Local",
    load: async () => (await import("./commands/local-logs.ts")).localLogs,
  },
  ...STACK_COMMANDS,
  {
    path: ["loadtest"],
    summary: "Load-test a store, and check that it never granted too much",
    load: async () => (await import("./commands/loadtest.ts")).loadtestCommand,
  },
];

const old = () => import("./old-spellings.ts");

function oldSpelling(path: readonly string[], load: CommandEntry["load"]): CommandEntry {
  return { path, summary: "", load, hidden: true };
}

const OLD_MODES = { disable: "disabled", enable: "enforce", bypass: "bypass", "clear-disabled": "inherit" };

/** What works and is not shown: spellings of the original. */
export const HIDDEN: readonly CommandEntry[] = [
  ...(["entity", "resource"] as const).flatMap((group) => [
    ...Object.entries(OLD_MODES).map(([word, mode]) =>
      oldSpelling([group, word], async () => (await old()).oldAccess(group, mode)),
    ),
    oldSpelling([group, "set-cascade"], async () => (await old()).oldCascade(group, true)),
    oldSpelling([group, "clear-cascade"], async () => (await old()).oldCascade(group, false)),
  ]),
  oldSpelling(["entity", "set-parent"], async () => (await old()).oldSetParent),
  oldSpelling(["entity", "reset"], async () => (await old()).oldReset),
  oldSpelling(["entity", "top-up"], async () => (await old()).oldTopUp),
  oldSpelling(["entity", "list-resources"], async () => (await old()).oldListResources),
  oldSpelling(["upgrade"], async () => (await import("./commands/deploy.ts")).update),
  oldSpelling(["cfn-template"], async () => (await import("./commands/template.ts")).template),
];

/** The one whose words the command line begins with, if there is one. */
export function called(args: readonly string[]): CommandEntry | undefined {
  return [...COMMANDS, ...HIDDEN].find(({ path }) => path.every((word, i) => args[i] === word));
}

/** Those whose words all stand on the command line, in order: the one that is called, and seldom another. */
export function mentioned(entry: CommandEntry, args: readonly string[]): boolean {
  let at = 0;
  for (const arg of args) if (arg === entry.path[at]) at += 1;
  return at === entry.path.length;
}
