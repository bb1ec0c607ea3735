import { newEntity } from "../../domain/entity.ts";
import { ExistsError, NotFoundError } from "../../domain/errors.ts";
import type { Entity } from "../../entry/index.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { requireParent } from "../known.ts";
import { requirePlan } from "../known-plan.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { entityText } from "../show-entity.ts";
import { metadataOf } from "../values.ts";

interface EntityCreateOptions extends GlobalOptions {
  /** Of `--name` and `--display-name`. */
  readonly displayName?: string;
  readonly parent?: string;
  readonly plan?: string;
  readonly cascade?: boolean;
  readonly meta?: readonly string[];
  readonly ifAbsent?: boolean;
}

export const entityCreate: CommandFile<EntityCreateOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "letters, digits and _ . - : @")
      .option("--name, --display-name <text>", "display name; default: the id")
      .option("--parent <id>", "the parent, charged too unless --no-cascade")
      .option("--plan <plan>", "its limits apply where the entity has none of its own")
      .option("--cascade", "charge the parent too; the default with --parent")
      .option("--no-cascade", "do not charge the parent")
      .option("--meta <key=value>", "free text of yours; repeated", repeated)
      .option("--if-absent", "if it exists, leave it unchanged and show it")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity create team-a --name 'Team A' --plan gold",
          "zae-limiter entity create key-2 --parent proj-1 --cascade",
        ),
      )
      .addHelpText("after", "\nExit codes: 1 the entity exists, without --if-absent, 4 no such parent or plan.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const { displayName: name, parent: parentId, plan: planId, cascade, meta } = options;
      const given = {
        id,
        ...(name === undefined ? {} : { name }),
        ...(parentId === undefined ? {} : { parentId }),
        ...(planId === undefined ? {} : { planId }),
        ...(cascade === undefined ? {} : { cascade }),
        ...(meta === undefined ? {} : { metadata: metadataOf(meta) }),
      };
      // Checked before the store is asked, and what would be is known.
      const planned = newEntity(given, Date.now());
      const looks = options.dryRun === true || options.ifAbsent === true;
      const existing = looks ? await entityOf(limiter, id) : undefined;
      if (existing !== undefined && options.ifAbsent === true) {
        await printChange(context, options, existing, () => entityText(existing));
        return EXIT.done;
      }
      if (parentId !== undefined) await requireParent(limiter, parentId);
      if (planId !== undefined) await requirePlan(limiter, planId);
      if (options.dryRun === true && existing !== undefined) throw entityExists(id);
      const entity =
        options.dryRun === true
          ? planned
          : await (options.ifAbsent === true
              ? limiter.ensureEntity(given, principalOf(context, options))
              : limiter.createEntity(given, principalOf(context, options)));
      await printChange(context, options, entity, () => entityText(entity));
      return EXIT.done;
    }),
};

async function entityOf(limiter: CommandLimiter, id: string): Promise<Entity | undefined> {
  try {
    return await limiter.getEntity(id);
  } catch (error) {
    if (error instanceof NotFoundError && error.code === "entity_not_found") return undefined;
    throw error;
  }
}

function entityExists(id: string): ExistsError {
  return new ExistsError(
    "entity_exists",
    `Entity ${id} exists already; change it with \`zae-limiter entity update\`, or pass --if-absent to leave it unchanged.`,
  );
}
