import { given } from "../domain/names/given.ts";
import { type CommandRow, command, type OptionRow } from "./command.ts";
import { bucketReset, bucketTopUp } from "./commands/bucket.ts";
import { entityUpdate } from "./commands/entity.ts";
import { accessSet, cascadeSet } from "./commands/policy.ts";
import { resourceList } from "./commands/resource.ts";
import { UsageError } from "./exit-code.ts";

// Spellings of the original: they call the command that took their place. Runbooks outlive tools.

type Group = "entity" | "resource";

const NAME = [["<name>", ""]] as const;
const ID = [["<id>", ""]] as const;

const SCOPE = [
  ["-r, --resource <resource>", ""],
  ["--allow-unknown", ""],
] as const satisfies readonly OptionRow[];

/** The scope that the first argument and `--resource` name. */
function scopeOf(group: Group, name: string, resource: string | undefined): { entity?: string; resource?: string } {
  return group === "resource" ? { resource: name } : given({ entity: name, resource });
}

/** `entity disable ID [--resource R]`, `resource disable R` and their like. */
export function oldAccess(group: Group, mode: string): CommandRow {
  return command({
    arguments: NAME,
    options: SCOPE,
    run: (context, options, [name = ""]) =>
      accessSet.run(context, { ...options, ...scopeOf(group, name, options.resource) }, [mode]),
  });
}

/** `entity set-cascade ID on|off`; without a word, `clear-cascade ID`. */
export function oldCascade(group: Group, isSet: boolean): CommandRow {
  return command({
    arguments: isSet ? [...NAME, ["<on|off>", ""]] : NAME,
    options: SCOPE,
    run: (context, options, [name = "", word = "inherit"]) =>
      cascadeSet.run(context, { ...options, ...scopeOf(group, name, options.resource) }, [word]),
  });
}

/** `entity set-parent ID --parent P` or `--none`. */
export const oldSetParent = command({
  arguments: ID,
  options: [
    ["--parent <id>", ""],
    ["--none", ""],
  ],
  run: (context, { parent, none }, args) => {
    if ((parent === undefined) === (none !== true)) throw new UsageError("Give --parent ID or --none.");
    return entityUpdate.run(context, { parent: parent ?? false }, args);
  },
});

/** `entity reset ID -r R`. */
export const oldReset = command({
  arguments: ID,
  options: [...SCOPE, ["-l, --limit <name>", "", "list"]],
  run: (context, options, [id = ""]) => bucketReset.run(context, options, [id, requiredResource(options.resource)]),
});

/** `entity top-up ID -r R -a LIMIT:N`. */
export const oldTopUp = command({
  arguments: ID,
  options: [...SCOPE, ["-a, --amount <name=n>", "", "list"]],
  run: (context, options, [id = ""]) => bucketTopUp.run(context, options, [id, requiredResource(options.resource)]),
});

/** `entity list-resources`. */
export const oldListResources = command({
  run: (context) => resourceList.run(context, { withEntityLimits: true }, []),
});

function requiredResource(resource: string | undefined): string {
  if (resource === undefined) throw new UsageError("No resource is given; give -r RESOURCE.");
  return resource;
}
