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
    summary: "Make the store, or bring a file to the newest schema",
    load: async () => (await import("./commands/init.ts")).init,
  },
  {
    path: ["doctor"],
    summary: "Whether store, namespace, version, clock and rights are well",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    path: ["version"],
    summary: "Versions of the tool, Node and the store",
    load: async () => (await import("./commands/version.ts")).version,
  },
  {
    path: ["completion"],
    summary: "A script that completes commands, options and ids in a shell",
    load: async () => (await import("./commands/completion.ts")).completion,
  },
  {
    path: ["entity", "create"],
    summary: "Make an entity",
    load: async () => (await import("./commands/entity-create.ts")).entityCreate,
  },
  {
    path: ["entity", "show"],
    summary: "One entity",
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
    summary: "All entities, or those with limits of their own",
    load: async () => (await import("./commands/entity-list.ts")).entityList,
  },
  {
    path: ["entity", "children"],
    summary: "Entities below one",
    load: async () => (await import("./commands/entity-children.ts")).entityChildren,
  },
  {
    path: ["entity", "set-limits"],
    summary: "Set limits of an entity",
    load: async () => (await import("./commands/entity-set-limits.ts")).entitySetLimits,
  },
  {
    path: ["entity", "get-limits"],
    summary: "Limits of an entity itself",
    load: async () => (await import("./commands/entity-get-limits.ts")).entityGetLimits,
  },
  {
    path: ["entity", "delete-limits"],
    summary: "Delete limits of an entity",
    load: async () => (await import("./commands/entity-delete-limits.ts")).entityDeleteLimits,
  },
  {
    path: ["entity", "list-limits"],
    summary: "Everything that is set for an entity",
    load: async () => (await import("./commands/entity-list-limits.ts")).entityListLimits,
  },
  ...ENTITY_TOTALS,
  {
    path: ["resource", "set-defaults"],
    summary: "Set the limits that everybody has on a resource",
    load: async () => (await import("./commands/resource-set-defaults.ts")).resourceSetDefaults,
  },
  {
    path: ["resource", "get-defaults"],
    summary: "Limits that everybody has on a resource",
    load: async () => (await import("./commands/resource-get-defaults.ts")).resourceGetDefaults,
  },
  {
    path: ["resource", "delete-defaults"],
    summary: "Delete the limits of a resource",
    load: async () => (await import("./commands/resource-delete-defaults.ts")).resourceDeleteDefaults,
  },
  {
    path: ["resource", "list"],
    summary: "Resources with defaults",
    load: async () => (await import("./commands/resource-list.ts")).resourceList,
  },
  {
    path: ["resource", "capacity"],
    summary: "What all entities together hold of a limit",
    load: async () => (await import("./commands/resource-capacity.ts")).resourceCapacity,
  },
  ...PLAN_COMMANDS,
  {
    path: ["system", "set-defaults"],
    summary: "Set limits for everybody on everything else, and what an outage means",
    load: async () => (await import("./commands/system-set-defaults.ts")).systemSetDefaults,
  },
  {
    path: ["system", "get-defaults"],
    summary: "Limits for everybody on everything else",
    load: async () => (await import("./commands/system-get-defaults.ts")).systemGetDefaults,
  },
  {
    path: ["system", "delete-defaults"],
    summary: "Delete the limits for everybody on everything else",
    load: async () => (await import("./commands/system-delete-defaults.ts")).systemDeleteDefaults,
  },
  ...SYSTEM_TOTALS,
  {
    path: ["access", "set"],
    summary: "Switch an entity, a resource, or an entity on a resource off or on",
    load: async () => (await import("./commands/access-set.ts")).accessSet,
  },
  {
    path: ["access", "show"],
    summary: "The access that is set for exactly this entity, resource or pair",
    load: async () => (await import("./commands/access-show.ts")).accessShow,
  },
  {
    path: ["cascade", "set"],
    summary: "Whether parents are charged, in place of the entity's own flag",
    load: async () => (await import("./commands/cascade-set.ts")).cascadeSet,
  },
  {
    path: ["cascade", "show"],
    summary: "The cascade that is set for exactly this entity, resource or pair",
    load: async () => (await import("./commands/cascade-show.ts")).cascadeShow,
  },
  {
    path: ["namespace", "register"],
    summary: "Make namespaces",
    load: async () => (await import("./commands/namespace-register.ts")).namespaceRegister,
  },
  {
    path: ["namespace", "list"],
    summary: "All namespaces",
    load: async () => (await import("./commands/namespace-list.ts")).namespaceList,
  },
  {
    path: ["namespace", "show"],
    summary: "One namespace",
    load: async () => (await import("./commands/namespace-show.ts")).namespaceShow,
  },
  {
    path: ["namespace", "delete"],
    summary: "Hide a namespace; its data stays",
    load: async () => (await import("./commands/namespace-delete.ts")).namespaceDelete,
  },
  {
    path: ["namespace", "recover"],
    summary: "Bring a deleted namespace back",
    load: async () => (await import("./commands/namespace-recover.ts")).namespaceRecover,
  },
  {
    path: ["namespace", "orphans"],
    summary: "Deleted namespaces whose data is still there",
    load: async () => (await import("./commands/namespace-orphans.ts")).namespaceOrphans,
  },
  {
    path: ["namespace", "purge"],
    summary: "Remove the data of a deleted namespace for good",
    load: async () => (await import("./commands/namespace-purge.ts")).namespacePurge,
  },
  {
    path: ["acquire"],
    summary: "Take tokens",
    load: async () => (await import("./commands/acquire.ts")).acquire,
  },
  {
    path: ["available"],
    summary: "What an entity holds on a resource, with its parents",
    load: async () => (await import("./commands/available.ts")).available,
  },
  {
    path: ["explain"],
    summary: "What applies to an entity on a resource, from where, and what would happen",
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    path: ["bucket", "show"],
    summary: "What an entity itself holds on a resource",
    load: async () => (await import("./commands/bucket-show.ts")).bucketShow,
  },
  {
    path: ["bucket", "list"],
    summary: "What everybody holds, on one resource or on all",
    load: async () => (await import("./commands/bucket-list.ts")).bucketList,
  },
  {
    path: ["bucket", "reset"],
    summary: "Make a bucket full again, debt forgiven",
    load: async () => (await import("./commands/bucket-reset.ts")).bucketReset,
  },
  {
    path: ["bucket", "top-up"],
    summary: "Add tokens to a bucket",
    load: async () => (await import("./commands/bucket-top-up.ts")).bucketTopUp,
  },
  {
    path: ["watch"],
    summary: "Buckets as they are used, live",
    load: async () => (await import("./commands/watch.ts")).watch,
  },
  ...USAGE_COMMANDS,
  ...LEASE_COMMANDS,
  ...EVENT_COMMANDS,
  {
    path: ["audit", "list"],
    summary: "What was changed, newest first",
    load: async () => (await import("./commands/audit-list.ts")).auditList,
  },
  {
    path: ["audit", "follow"],
    summary: "Changes as they happen",
    load: async () => (await import("./commands/audit-follow.ts")).auditFollow,
  },
  {
    path: ["audit", "verify"],
    summary: "Compare the archive with what was put there",
    load: async () => (await import("./commands/audit-verify.ts")).auditVerify,
  },
  {
    path: ["limits", "validate"],
    summary: "Check a manifest; opens no store",
    load: async () => (await import("./commands/limits-validate.ts")).limitsValidate,
  },
  {
    path: ["limits", "plan"],
    summary: "What applying a manifest would change",
    load: async () => (await import("./commands/limits-plan.ts")).limitsPlan,
  },
  {
    path: ["limits", "apply"],
    summary: "Make a namespace what a manifest says",
    load: async () => (await import("./commands/limits-apply.ts")).limitsApply,
  },
  {
    path: ["limits", "diff"],
    summary: "What is no longer as it was last applied, and who did it",
    load: async () => (await import("./commands/limits-diff.ts")).limitsDiff,
  },
  {
    path: ["limits", "export"],
    summary: "A namespace as a manifest",
    load: async () => (await import("./commands/limits-export.ts")).limitsExport,
  },
  {
    path: ["limits", "schema"],
    summary: "The JSON Schema of manifests",
    load: async () => (await import("./commands/limits-schema.ts")).limitsSchema,
  },
  {
    path: ["limits", "cfn-template"],
    summary: "A manifest as a resource of CloudFormation",
    load: async () => (await import("./commands/limits-cfn-template.ts")).limitsCfnTemplate,
  },
  {
    path: ["migrate"],
    summary: "Bring a table of an earlier layout to ours",
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    path: ["aggregate"],
    summary: "Follow the table's stream into the audit archive, and sweep, without a Lambda",
    load: async () => (await import("./commands/aggregate.ts")).aggregate,
  },
  {
    path: ["serve"],
    summary: "Limits over HTTP, with a dashboard",
    load: async () => (await import("./commands/serve.ts")).serve,
  },
  {
    path: ["token", "add"],
    summary: "Make a token for the HTTP service",
    load: async () => (await import("./commands/token-add.ts")).tokenAdd,
  },
  {
    path: ["token", "list"],
    summary: "The tokens of a file",
    load: async () => (await import("./commands/token-list.ts")).tokenList,
  },
  {
    path: ["token", "remove"],
    summary: "Take a token back",
    load: async () => (await import("./commands/token-remove.ts")).tokenRemove,
  },
  {
    path: ["local", "up"],
    summary: "Start DynamoDB Local in the background, unless it runs",
    load: async () => (await import("./commands/local-up.ts")).localUp,
  },
  {
    path: ["local", "down"],
    summary: "Stop DynamoDB Local",
    load: async () => (await import("./commands/local-down.ts")).localDown,
  },
  {
    path: ["local", "status"],
    summary: "Whether DynamoDB Local runs, and where",
    load: async () => (await import("./commands/local-status.ts")).localStatus,
  },
  {
    path: ["local", "env"],
    summary: "Print the variables that point a shell's programs at DynamoDB Local",
    load: async () => (await import("./commands/local-env.ts")).localEnv,
  },
  {
    path: ["local", "logs"],
    summary: "The log of DynamoDB Local",
    load: async () => (await import("./commands/local-logs.ts")).localLogs,
  },
  ...STACK_COMMANDS,
  {
    path: ["loadtest"],
    summary: "Put a store under load, and hold what it granted against arithmetic",
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

/** Commands of groups that end in a word: `create` is one of entities, and one of plans. */
export function commandsEndingIn(word: string): readonly string[] {
  return COMMANDS.filter(({ path }) => path.length > 1 && path.at(-1) === word).map(({ path }) => path.join(" "));
}

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
