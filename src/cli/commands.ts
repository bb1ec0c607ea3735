import type { CommandFile, CommandGroup, GlobalOptions } from "./command.ts";

/** One command of the tool. */
export interface CommandEntry {
  /** The words that call it. */
  readonly path: readonly string[];
  readonly summary: string;
  readonly load: () => Promise<CommandFile<GlobalOptions>>;
  /** Not shown in help. */
  readonly hidden?: true;
}

/** A command, or the file of several. Each is loaded with whatever it imports only when it is called. */
type Load = () => Promise<CommandFile<GlobalOptions> | CommandGroup>;

const init: Load = async () => (await import("./commands/init.ts")).init;
const doctor: Load = async () => (await import("./commands/doctor.ts")).doctor;
const sweep: Load = async () => (await import("./commands/sweep.ts")).sweep;
const version: Load = async () => (await import("./commands/version.ts")).version;
const completion: Load = async () => (await import("./commands/completion.ts")).completion;
const entityCreate: Load = async () => (await import("./commands/entity-create.ts")).entityCreate;
const entityShow: Load = async () => (await import("./commands/entity-show.ts")).entityShow;
const entityUpdate: Load = async () => (await import("./commands/entity-update.ts")).entityUpdate;
const entityDelete: Load = async () => (await import("./commands/entity-delete.ts")).entityDelete;
const entityList: Load = async () => (await import("./commands/entity-list.ts")).entityList;
const entityChildren: Load = async () => (await import("./commands/entity-children.ts")).entityChildren;
const levels: Load = async () => (await import("./commands/levels.ts")).LEVEL_COMMANDS;
const entityListLimits: Load = async () => (await import("./commands/entity-list-limits.ts")).entityListLimits;
const resourceList: Load = async () => (await import("./commands/resource-list.ts")).resourceList;
const resourceCapacity: Load = async () => (await import("./commands/resource-capacity.ts")).resourceCapacity;
const planCreate: Load = async () => (await import("./commands/plan-create.ts")).planCreate;
const planList: Load = async () => (await import("./commands/plan-list.ts")).planList;
const planGet: Load = async () => (await import("./commands/plan-get.ts")).planGet;
const planUpdateCommand: Load = async () => (await import("./commands/plan-update.ts")).planUpdateCommand;
const planDelete: Load = async () => (await import("./commands/plan-delete.ts")).planDelete;
const accessSet: Load = async () => (await import("./commands/access.ts")).accessSet;
const accessShow: Load = async () => (await import("./commands/access.ts")).accessShow;
const cascadeSet: Load = async () => (await import("./commands/cascade.ts")).cascadeSet;
const cascadeShow: Load = async () => (await import("./commands/cascade.ts")).cascadeShow;
const namespaceRegister: Load = async () => (await import("./commands/namespace-register.ts")).namespaceRegister;
const namespaceList: Load = async () => (await import("./commands/namespace-list.ts")).namespaceList;
const namespaceShow: Load = async () => (await import("./commands/namespace-show.ts")).namespaceShow;
const namespaceDelete: Load = async () => (await import("./commands/namespace-delete.ts")).namespaceDelete;
const namespaceRecover: Load = async () => (await import("./commands/namespace-recover.ts")).namespaceRecover;
const namespaceOrphans: Load = async () => (await import("./commands/namespace-orphans.ts")).namespaceOrphans;
const namespacePurge: Load = async () => (await import("./commands/namespace-purge.ts")).namespacePurge;
const acquire: Load = async () => (await import("./commands/acquire.ts")).acquire;
const available: Load = async () => (await import("./commands/available.ts")).available;
const explain: Load = async () => (await import("./commands/explain.ts")).explain;
const bucketShow: Load = async () => (await import("./commands/bucket-show.ts")).bucketShow;
const bucketList: Load = async () => (await import("./commands/bucket-list.ts")).bucketList;
const bucketReset: Load = async () => (await import("./commands/bucket-reset.ts")).bucketReset;
const bucketTopUp: Load = async () => (await import("./commands/bucket-top-up.ts")).bucketTopUp;
const watch: Load = async () => (await import("./commands/watch.ts")).watch;
const usageList: Load = async () => (await import("./commands/usage-list.ts")).usageList;
const usageSummary: Load = async () => (await import("./commands/usage-summary.ts")).usageSummary;
const usageTotals: Load = async () => (await import("./commands/usage-totals.ts")).usageTotals;
const usageExport: Load = async () => (await import("./commands/usage-export.ts")).usageExport;
const usageChart: Load = async () => (await import("./commands/usage-chart.ts")).usageChart;
const refusalsList: Load = async () => (await import("./commands/refusals-list.ts")).refusalsList;
const refusalsTop: Load = async () => (await import("./commands/refusals-top.ts")).refusalsTop;
const leaseList: Load = async () => (await import("./commands/lease-list.ts")).leaseList;
const leaseShow: Load = async () => (await import("./commands/lease-show.ts")).leaseShow;
const leaseSettle: Load = async () => (await import("./commands/lease-settle.ts")).leaseSettle;
const leaseRollback: Load = async () => (await import("./commands/lease-rollback.ts")).leaseRollback;
const eventsFollow: Load = async () => (await import("./commands/events-follow.ts")).eventsFollow;
const auditList: Load = async () => (await import("./commands/audit-list.ts")).auditList;
const auditFollow: Load = async () => (await import("./commands/audit-follow.ts")).auditFollow;
const auditVerify: Load = async () => (await import("./commands/audit-verify.ts")).auditVerify;
const limitsValidate: Load = async () => (await import("./commands/limits-validate.ts")).limitsValidate;
const limitsPlan: Load = async () => (await import("./commands/limits-plan.ts")).limitsPlan;
const limitsApply: Load = async () => (await import("./commands/limits-apply.ts")).limitsApply;
const limitsDiff: Load = async () => (await import("./commands/limits-diff.ts")).limitsDiff;
const limitsExport: Load = async () => (await import("./commands/limits-export.ts")).limitsExport;
const limitsSchema: Load = async () => (await import("./commands/limits-schema.ts")).limitsSchema;
const limitsCfnTemplate: Load = async () => (await import("./commands/limits-cfn-template.ts")).limitsCfnTemplate;
const migrate: Load = async () => (await import("./commands/migrate.ts")).migrate;
const aggregate: Load = async () => (await import("./commands/aggregate.ts")).aggregate;
const serve: Load = async () => (await import("./commands/serve.ts")).serve;
const tokenAdd: Load = async () => (await import("./commands/token-add.ts")).tokenAdd;
const tokenList: Load = async () => (await import("./commands/token-list.ts")).tokenList;
const tokenRemove: Load = async () => (await import("./commands/token-remove.ts")).tokenRemove;
const localUp: Load = async () => (await import("./commands/local-up.ts")).localUp;
const localDown: Load = async () => (await import("./commands/local-down.ts")).localDown;
const localStatus: Load = async () => (await import("./commands/local-status.ts")).localStatus;
const localEnv: Load = async () => (await import("./commands/local-env.ts")).localEnv;
const localLogs: Load = async () => (await import("./commands/local-logs.ts")).localLogs;
const deploy: Load = async () => (await import("./commands/deploy.ts")).deploy;
const update: Load = async () => (await import("./commands/deploy.ts")).update;
const status: Load = async () => (await import("./commands/status.ts")).status;
const list: Load = async () => (await import("./commands/list.ts")).list;
const check: Load = async () => (await import("./commands/check.ts")).check;
const deleteCommand: Load = async () => (await import("./commands/delete.ts")).deleteCommand;
const template: Load = async () => (await import("./commands/template.ts")).template;
const lambdaExport: Load = async () => (await import("./commands/lambda-export.ts")).lambdaExport;
const loadtestCommand: Load = async () => (await import("./commands/loadtest.ts")).loadtestCommand;

/** Groups of commands. */
export const GROUPS: Readonly<Record<string, string>> = {
  entity: "Create, show and change entities",
  resource: "Set and show the default limits of resources",
  plan: "Create, show and change plans: named sets of limits",
  system: "Set and show the system-wide default limits",
  access: "Disable entities and resources, or bypass their limits",
  cascade: "Set and show whether parents are charged",
  namespace: "Register, delete and recover namespaces (tenants)",
  bucket: "List, show, reset and top up buckets",
  lease: "List, settle and roll back leases of a service",
  usage: "Show, sum, chart and export usage",
  refusals: "Show refused requests and the limits that refused them",
  events: "Follow the events of a service",
  audit: "List, follow and verify the audit log",
  local: "Run DynamoDB Local on this machine",
  limits: "Plan, apply and export limits declared in a file",
  token: "Add, list and remove tokens of the HTTP service",
};

const ROWS: readonly (readonly [words: string, summary: string, load: Load])[] = [
  ["init", "Create the store, or upgrade a file to the newest schema", init],
  ["doctor", "Check the store, namespace, schema, clock and permissions", doctor],
  ["sweep", "Remove idle buckets and old records of a PostgreSQL store, to the end", sweep],
  ["version", "Show the versions of the tool, Node and the store", version],
  ["completion", "Print a script for shell completion", completion],
  ["entity create", "Create an entity", entityCreate],
  ["entity show", "Show an entity", entityShow],
  ["entity update", "Change an entity", entityUpdate],
  ["entity delete", "Delete an entity with its limits, buckets and usage", entityDelete],
  ["entity list", "List entities: all, those of a plan, or those with own limits", entityList],
  ["entity children", "List the children of an entity", entityChildren],
  ["entity set-limits", "Set the limits of an entity", levels],
  ["entity get-limits", "Show the limits set for an entity", levels],
  ["entity delete-limits", "Delete the limits of an entity", levels],
  ["entity list-limits", "List all limits set for an entity, on every resource", entityListLimits],
  ["entity set-totals", "Set the totals of an entity: limits over all resources", levels],
  ["entity get-totals", "Show the totals of an entity", levels],
  ["entity delete-totals", "Delete the totals of an entity", levels],
  ["resource set-defaults", "Set the default limits of a resource", levels],
  ["resource get-defaults", "Show the default limits of a resource", levels],
  ["resource delete-defaults", "Delete the default limits of a resource", levels],
  ["resource list", "List the resources with default limits", resourceList],
  ["resource capacity", "Show what all entities together have left of a limit", resourceCapacity],
  ["plan create", "Create a plan", planCreate],
  ["plan list", "List plans", planList],
  ["plan get", "Show a plan", planGet],
  ["plan update", "Change the name or metadata of a plan", planUpdateCommand],
  ["plan delete", "Delete a plan with its limits and totals", planDelete],
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
  ["access set", "Disable an entity or resource, or bypass or enforce its limits", accessSet],
  ["access show", "Show the access set for exactly this entity, resource or pair", accessShow],
  ["cascade set", "Override whether parents are charged", cascadeSet],
  ["cascade show", "Show the cascade set for exactly this entity, resource or pair", cascadeShow],
  ["namespace register", "Create namespaces", namespaceRegister],
  ["namespace list", "List namespaces", namespaceList],
  ["namespace show", "Show a namespace", namespaceShow],
  ["namespace delete", "Delete a namespace; its data stays until it is purged", namespaceDelete],
  ["namespace recover", "Recover a deleted namespace", namespaceRecover],
  ["namespace orphans", "List deleted namespaces that still have data", namespaceOrphans],
  ["namespace purge", "Delete the data of a deleted namespace permanently", namespacePurge],
  ["acquire", "Acquire tokens", acquire],
  ["available", "Show what an entity and its parents have left on a resource", available],
  ["explain", "Explain which limits apply, where they come from, and whether a request fits", explain],
  ["bucket show", "Show one bucket, without its parents", bucketShow],
  ["bucket list", "List buckets of an entity, a resource, or all", bucketList],
  ["bucket reset", "Fill a bucket and cancel its debt", bucketReset],
  ["bucket top-up", "Add tokens to a bucket", bucketTopUp],
  ["watch", "Watch buckets live", watch],
  ["usage list", "List usage by window", usageList],
  ["usage summary", "Sum up usage over a time range", usageSummary],
  ["usage totals", "Sum up usage for each entity or each resource", usageTotals],
  ["usage export", "Export usage as CSV, NDJSON or JSON", usageExport],
  ["usage chart", "Draw usage as a chart in the terminal", usageChart],
  ["refusals list", "List refusals by window", refusalsList],
  ["refusals top", "Show who was refused most often", refusalsTop],
  ["lease list", "List open leases", leaseList],
  ["lease show", "Show a lease", leaseShow],
  ["lease settle", "End a lease with the amounts actually used", leaseSettle],
  ["lease rollback", "End a lease and give everything back", leaseRollback],
  ["events follow", "Follow acquires, refusals and changes as they happen", eventsFollow],
  ["audit list", "List changes, newest first", auditList],
  ["audit follow", "Follow changes as they happen", auditFollow],
  ["audit verify", "Verify that the archive is complete and undamaged", auditVerify],
  ["limits validate", "Check a manifest without opening a store", limitsValidate],
  ["limits plan", "Show what applying a manifest would change", limitsPlan],
  ["limits apply", "Apply a manifest to a namespace", limitsApply],
  ["limits diff", "Show what changed since the last apply, and who changed it", limitsDiff],
  ["limits export", "Export a namespace as a manifest", limitsExport],
  ["limits schema", "Print the JSON Schema of manifests", limitsSchema],
  ["limits cfn-template", "Print a manifest as a CloudFormation resource", limitsCfnTemplate],
  ["migrate", "Migrate a table from an earlier schema", migrate],
  ["aggregate", "Archive audit events and sweep a table, without a Lambda function", aggregate],
  ["serve", "Serve limits over HTTP, with a dashboard", serve],
  ["token add", "Create a token for the HTTP service", tokenAdd],
  ["token list", "List the tokens in a file", tokenList],
  ["token remove", "Remove a token", tokenRemove],
  ["local up", "Start DynamoDB Local in the background", localUp],
  ["local down", "Stop DynamoDB Local", localDown],
  ["local status", "Show whether and where DynamoDB Local is running", localStatus],
  ["local env", "Print the environment variables for using DynamoDB Local", localEnv],
  ["local logs", "Show the log of DynamoDB Local", localLogs],
  ["deploy", "Create or change a stack on AWS", deploy],
  ["update", "Update a stack to this version, or change it", update],
  ["status", "Show the parts of a stack and whether it is ready", status],
  ["list", "List the stacks in a region", list],
  ["check", "Check that client, table and functions are compatible", check],
  ["delete", "Delete a stack; its table and archive stay", deleteCommand],
  ["template", "Print the CloudFormation template of a stack", template],
  ["lambda-export", "Write the code of a Lambda function to a zip file", lambdaExport],
  ["loadtest", "Load-test a store, and check that it never granted too much", loadtestCommand],
];

export const COMMANDS: readonly CommandEntry[] = ROWS.map(([words, summary, load]) => ({
  path: words.split(" "),
  summary,
  load: async () => {
    const loaded = await load();
    return "configure" in loaded
      ? (loaded as CommandFile<GlobalOptions>)
      : (loaded[words] as CommandFile<GlobalOptions>);
  },
}));

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
