import type { CommandGroup, CommandRow } from "./command.ts";

export interface CommandEntry {
  /** The words that call it. */
  readonly path: readonly string[];
  readonly summary: string;
  readonly load: () => Promise<CommandRow>;
  /** Not shown in help. */
  readonly hidden?: true;
}

/** Loads a file of commands, with all that it imports, when one of them is called: its exports, or a group of them, by their words. */
type Load = () => Promise<object>;

const init: Load = () => import("./commands/init.ts");
const sweep: Load = () => import("./commands/sweep.ts");
const completion: Load = () => import("./commands/completion.ts");
const acquire: Load = () => import("./commands/acquire.ts");
const explain: Load = () => import("./commands/explain.ts");
const watch: Load = () => import("./commands/watch.ts");
const copy: Load = () => import("./commands/copy.ts");
const migrate: Load = () => import("./commands/migrate.ts");
const serve: Load = () => import("./commands/serve.ts");
const proxy: Load = () => import("./commands/proxy.ts");
const replay: Load = () => import("./commands/replay.ts");
const loadtest: Load = () => import("./commands/loadtest.ts");
const entity: Load = async () => (await import("./commands/entity.ts")).ENTITY_COMMANDS;
const resource: Load = async () => (await import("./commands/resource.ts")).RESOURCE_COMMANDS;
const plan: Load = async () => (await import("./commands/plan.ts")).PLAN_COMMANDS;
const policy: Load = async () => (await import("./commands/policy.ts")).POLICY_COMMANDS;
const namespace: Load = async () => (await import("./commands/namespace.ts")).NAMESPACE_COMMANDS;
const bucket: Load = async () => (await import("./commands/bucket.ts")).BUCKET_COMMANDS;
const correction: Load = async () => (await import("./commands/correction.ts")).CORRECTION_COMMANDS;
const usage: Load = async () => (await import("./commands/usage.ts")).USAGE_COMMANDS;
const lease: Load = async () => (await import("./commands/lease.ts")).LEASE_COMMANDS;
const events: Load = async () => (await import("./commands/events-follow.ts")).EVENTS_COMMANDS;
const edge: Load = async () => (await import("./commands/edge.ts")).EDGE_COMMANDS;
const limits: Load = async () => (await import("./commands/limits.ts")).LIMITS_COMMANDS;
const token: Load = async () => (await import("./commands/token.ts")).TOKEN_COMMANDS;
const local: Load = async () => (await import("./commands/local.ts")).LOCAL_COMMANDS;
const levels: Load = async () => (await import("./commands/levels.ts")).LEVEL_COMMANDS;
const audit: Load = async () => (await import("./commands/audit.ts")).AUDIT_COMMANDS;
const stack: Load = async () => (await import("./commands/stack.ts")).STACK_COMMANDS;

export const GROUPS: Readonly<Record<string, string>> = {
  entity: "Create, show and change entities",
  resource: "Set and show the default limits of resources",
  plan: "Create, show and change plans: named sets of limits",
  system: "Set and show the system-wide default limits",
  access: "Disable entities and resources, or bypass their limits",
  cascade: "Set and show whether parents are charged",
  namespace: "Register, freeze, delete and recover namespaces (tenants)",
  bucket: "List, show, reset, top up and correct buckets",
  lease: "List, settle and roll back leases of a service",
  usage: "Show, sum, chart and export usage",
  refusals: "Show refused requests and the limits that refused them",
  events: "Follow the events of a service",
  audit: "List, follow and verify the audit log",
  local: "Run DynamoDB Local on this machine",
  limits: "Plan, apply and export limits declared in a file",
  edge: "Check the file of an edge, and show what descriptors become",
  token: "Add, list and remove tokens of the HTTP service",
};

const ROWS: readonly (readonly [words: string, summary: string, load: Load])[] = [
  ["init", "Create the store, or upgrade a file to the newest schema", init],
  ["doctor", "Check the store, namespace, schema, clock and permissions", init],
  ["sweep", "Remove idle buckets and old records of a PostgreSQL store, to the end", sweep],
  ["version", "Show the versions of the tool, Node and the store", init],
  ["completion", "Print a script for shell completion", completion],
  ["entity create", "Create an entity", entity],
  ["entity show", "Show an entity", entity],
  ["entity update", "Change an entity", entity],
  ["entity delete", "Delete an entity with its limits, buckets and usage", entity],
  ["entity list", "List entities: all, those of a plan, or those with own limits", entity],
  ["entity children", "List the children of an entity", entity],
  ["entity set-limits", "Set the limits of an entity", levels],
  ["entity get-limits", "Show the limits set for an entity", levels],
  ["entity delete-limits", "Delete the limits of an entity", levels],
  ["entity list-limits", "List all limits set for an entity, on every resource", entity],
  ["entity set-totals", "Set the totals of an entity: limits over all resources", levels],
  ["entity get-totals", "Show the totals of an entity", levels],
  ["entity delete-totals", "Delete the totals of an entity", levels],
  ["resource set-defaults", "Set the default limits of a resource", levels],
  ["resource get-defaults", "Show the default limits of a resource", levels],
  ["resource delete-defaults", "Delete the default limits of a resource", levels],
  ["resource list", "List the resources with default limits", resource],
  ["resource capacity", "Show what all entities together have left of a limit", resource],
  ["plan create", "Create a plan", plan],
  ["plan list", "List plans", plan],
  ["plan get", "Show a plan", plan],
  ["plan update", "Change the name or metadata of a plan", plan],
  ["plan delete", "Delete a plan with its limits and totals", plan],
  ["plan set-limits", "Set the limits of a plan", levels],
  ["plan get-limits", "Show the limits of a plan", levels],
  ["plan delete-limits", "Delete the limits of a plan", levels],
  ["plan set-totals", "Set the totals of a plan: limits over all resources, for each entity", levels],
  ["plan get-totals", "Show the totals of a plan", levels],
  ["plan delete-totals", "Delete the totals of a plan", levels],
  ["system set-defaults", "Set the system-wide default limits and what happens in an outage", levels],
  ["system get-defaults", "Show the system-wide default limits", levels],
  ["system delete-defaults", "Delete the system-wide default limits", levels],
  ["system set-totals", "Set the default totals of every entity: limits over all resources", levels],
  ["system get-totals", "Show the default totals of every entity", levels],
  ["system delete-totals", "Delete the default totals of every entity", levels],
  ["access set", "Disable an entity or resource, or bypass or enforce its limits", policy],
  ["access show", "Show the access set for exactly this entity, resource or pair", policy],
  ["cascade set", "Override whether parents are charged", policy],
  ["cascade show", "Show the cascade set for exactly this entity, resource or pair", policy],
  ["namespace register", "Create namespaces", namespace],
  ["namespace list", "List namespaces", namespace],
  ["namespace show", "Show a namespace", namespace],
  ["namespace delete", "Delete a namespace; its data stays until it is purged", namespace],
  ["namespace freeze", "Refuse all requests of a namespace, until it is unfrozen", namespace],
  ["namespace unfreeze", "Let the requests of a frozen namespace through again", namespace],
  ["namespace recover", "Recover a deleted namespace", namespace],
  ["namespace orphans", "List deleted namespaces that still have data", namespace],
  ["namespace purge", "Delete the data of a deleted namespace permanently", namespace],
  ["acquire", "Acquire tokens", acquire],
  ["available", "Show what an entity and its parents have left on a resource", explain],
  ["explain", "Explain which limits apply, where they come from, and whether a request fits", explain],
  ["bucket show", "Show one bucket, without its parents", bucket],
  ["bucket list", "List buckets of an entity, a resource, or all", bucket],
  ["bucket reset", "Fill a bucket and cancel its debt", bucket],
  ["bucket top-up", "Add tokens to a bucket", bucket],
  ["bucket charge", "Charge what was used without a lease", correction],
  ["bucket give-back", "Give back what was not used, without a lease", correction],
  ["watch", "Watch buckets live", watch],
  ["usage list", "List usage by window", usage],
  ["usage summary", "Sum up usage over a time range", usage],
  ["usage totals", "Sum up usage for each entity or each resource", usage],
  ["usage export", "Export usage as CSV, NDJSON or JSON", usage],
  ["usage chart", "Draw usage as a chart in the terminal", usage],
  ["refusals list", "List refusals by window", usage],
  ["refusals log", "List refused requests one by one", usage],
  ["refusals top", "Show who was refused most often", usage],
  ["lease list", "List open leases", lease],
  ["lease show", "Show a lease", lease],
  ["lease settle", "End a lease with the amounts actually used", lease],
  ["lease rollback", "End a lease and give everything back", lease],
  ["events follow", "Follow acquires, refusals and changes as they happen", events],
  ["audit list", "List changes, newest first", audit],
  ["audit follow", "Follow changes as they happen", audit],
  ["audit verify", "Verify that the archive is complete and undamaged", audit],
  ["limits validate", "Check a manifest without opening a store", limits],
  ["limits plan", "Show what applying a manifest would change", limits],
  ["limits apply", "Apply a manifest to a namespace", limits],
  ["limits diff", "Show what changed since the last apply, and who changed it", limits],
  ["limits export", "Export a namespace as a manifest", limits],
  ["limits schema", "Print the JSON Schema of manifests", limits],
  ["limits cfn-template", "Print a manifest as a CloudFormation resource", limits],
  ["copy", "Copy namespaces from one store to another, and compare them", copy],
  ["migrate", "Migrate a table from an earlier schema", migrate],
  ["aggregate", "Archive audit events and sweep a table, without a Lambda function", sweep],
  ["serve", "Serve limits over HTTP, with a dashboard", serve],
  ["edge check", "Check an edge file", edge],
  ["edge map", "Show what the descriptors of a call become", edge],
  ["proxy", "Limit calls of language models on their way to the provider", proxy],
  ["token add", "Create a token for the HTTP service", token],
  ["token list", "List the tokens in a file", token],
  ["token remove", "Remove a token", token],
  ["local up", "Start DynamoDB Local in the background", local],
  ["local down", "Stop DynamoDB Local", local],
  ["local status", "Show whether and where DynamoDB Local is running", local],
  ["local env", "Print the environment variables for using DynamoDB Local", local],
  ["local logs", "Show the log of DynamoDB Local", local],
  ["deploy", "Create or change a stack on AWS", stack],
  ["update", "Update a stack to this version, or change it", stack],
  ["status", "Show the parts of a stack and whether it is ready", stack],
  ["list", "List the stacks in a region", stack],
  ["check", "Check that client, table and functions are compatible", stack],
  ["delete", "Delete a stack; its table and archive stay", stack],
  ["template", "Print the CloudFormation template of a stack", stack],
  ["lambda-export", "Write the code of a Lambda function to a zip file", stack],
  ["replay", "Show what other limits would have refused of recorded requests", replay],
  ["loadtest", "Load-test a store, and check that it never granted too much", loadtest],
];

export const COMMANDS: readonly CommandEntry[] = ROWS.map(([words, summary, load]) => ({
  path: words.split(" "),
  summary,
  load: async () => ((await load()) as CommandGroup)[words] as CommandRow,
}));

const old = () => import("./old-spellings.ts");

function oldSpelling(path: readonly string[], load: CommandEntry["load"]): CommandEntry {
  return { path, summary: "", load, hidden: true };
}

const OLD_MODES = { disable: "disabled", enable: "enforce", bypass: "bypass", "clear-disabled": "inherit" };

/** Commands that work and are not shown: spellings of the original. */
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
  oldSpelling(["upgrade"], async () => (await import("./commands/stack.ts")).update),
  oldSpelling(["cfn-template"], async () => (await import("./commands/stack.ts")).template),
];

/** The one whose words the command line begins with, if there is one. */
export function called(args: readonly string[]): CommandEntry | undefined {
  return [...COMMANDS, ...HIDDEN].find(({ path }) => path.every((word, i) => args[i] === word));
}

/** Whether all words of a command stand on the command line, in order: true of the one that is called, and seldom of another. */
export function mentioned(entry: CommandEntry, args: readonly string[]): boolean {
  let at = 0;
  for (const arg of args) if (arg === entry.path[at]) at += 1;
  return at === entry.path.length;
}
