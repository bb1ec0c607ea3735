import type { CommandFile, GlobalOptions } from "./command.ts";
import { repeated } from "./command.ts";
import { bucketReset, bucketTopUp } from "./commands/bucket.ts";
import { entityUpdate } from "./commands/entity.ts";
import { accessSet, cascadeSet } from "./commands/policy.ts";
import { resourceList } from "./commands/resource.ts";
import { UsageError } from "./exit-code.ts";

// Spellings of the original: they call the command that took their place. Runbooks outlive tools.

interface OldOptions extends GlobalOptions {
  readonly resource?: string;
  readonly parent?: string;
  readonly none?: boolean;
  readonly limit?: readonly string[];
  readonly amount?: readonly string[];
  readonly allowUnknown?: boolean;
}

type Group = "entity" | "resource";

/** Whom the first argument and `--resource` name. */
function scopeOf(group: Group, name: string, { resource }: OldOptions): { entity?: string; resource?: string } {
  if (group === "resource") return { resource: name };
  return { entity: name, ...(resource === undefined ? {} : { resource }) };
}

/** `entity disable ID [--resource R]`, `resource disable R` and their like. */
export function oldAccess(group: Group, mode: string): CommandFile<OldOptions> {
  return {
    configure: (command) => {
      command.argument("<name>").option("-r, --resource <resource>").option("--allow-unknown");
    },
    run: (context, options, [name = ""]) =>
      accessSet.run(context, { ...options, ...scopeOf(group, name, options) }, [mode]),
  };
}

/** `entity set-cascade ID on|off`; without a word, `clear-cascade ID`. */
export function oldCascade(group: Group, isSet: boolean): CommandFile<OldOptions> {
  return {
    configure: (command) => {
      command.argument("<name>").option("-r, --resource <resource>").option("--allow-unknown");
      if (isSet) command.argument("<on|off>");
    },
    run: (context, options, [name = "", word = "inherit"]) =>
      cascadeSet.run(context, { ...options, ...scopeOf(group, name, options) }, [word]),
  };
}

/** `entity set-parent ID --parent P` or `--none`. */
export const oldSetParent: CommandFile<OldOptions> = {
  configure: (command) => {
    command.argument("<id>").option("--parent <id>").option("--none");
  },
  run: (context, { parent, none, ...options }, args) => {
    if ((parent === undefined) === (none !== true)) throw new UsageError("Give --parent ID or --none.");
    return entityUpdate.run(context, { ...options, parent: parent ?? false }, args);
  },
};

/** `entity reset ID -r R`. */
export const oldReset: CommandFile<OldOptions> = {
  configure: (command) => {
    command
      .argument("<id>")
      .option("-r, --resource <resource>")
      .option("-l, --limit <name>", "", repeated)
      .option("--allow-unknown");
  },
  run: (context, options, [id = ""]) => bucketReset.run(context, options, [id, requiredResource(options)]),
};

/** `entity top-up ID -r R -a LIMIT:N`. */
export const oldTopUp: CommandFile<OldOptions> = {
  configure: (command) => {
    command
      .argument("<id>")
      .option("-r, --resource <resource>")
      .option("-a, --amount <name=n>", "", repeated)
      .option("--allow-unknown");
  },
  run: (context, options, [id = ""]) => bucketTopUp.run(context, options, [id, requiredResource(options)]),
};

/** `entity list-resources`. */
export const oldListResources: CommandFile<OldOptions> = {
  configure: () => {},
  run: (context, options) => resourceList.run(context, { ...options, withEntityLimits: true }, []),
};

function requiredResource({ resource }: OldOptions): string {
  if (resource === undefined) throw new UsageError("No resource is given; give -r RESOURCE.");
  return resource;
}
