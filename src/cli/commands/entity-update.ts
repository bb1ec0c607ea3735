import { checkPatch, type EntityPatch, patched } from "../../domain/entity.ts";
import { ConflictError, ValidationError } from "../../domain/errors.ts";
import type { Entity } from "../../entry/index.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { requireEntity, requireParent } from "../known.ts";
import { requirePlan } from "../known-plan.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { entityText } from "../show-entity.ts";
import { countOf, metadataOf } from "../values.ts";

interface EntityUpdateOptions extends GlobalOptions {
  readonly displayName?: string;
  /** False: `--no-parent`. */
  readonly parent?: string | false;
  /** An id, or `none`. */
  readonly plan?: string;
  readonly cascade?: boolean;
  readonly meta?: readonly string[];
  readonly unsetMeta?: readonly string[];
  readonly ifVersion?: string;
}

export const entityUpdate: CommandFile<EntityUpdateOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "the entity")
      .option("--name, --display-name <text>", "display name")
      .option("--parent <id>", "the new parent")
      .option("--no-parent", "remove the parent")
      .option("--plan <plan|none>", "the new plan, or none")
      .option("--cascade", "charge the parent too")
      .option("--no-cascade", "do not charge the parent")
      .option("--meta <key=value>", "set this key, keep the others; repeated", repeated)
      .option("--unset-meta <key>", "remove this key; repeated", repeated)
      .option("--if-version <n>", "only if this is still its version")
      .addHelpText(
        "after",
        examples(
          "zae-limiter entity update key-1 --name 'Build server' --meta owner=ops",
          "zae-limiter entity update key-1 --plan gold",
          "zae-limiter entity update key-1 --no-cascade --dry-run",
        ),
      )
      .addHelpText("after", "\nExit codes: 1 it was changed in the meantime, 4 no such entity, parent or plan.\n");
  },
  run: (context, options, [id = ""]) => {
    const { meta, unsetMeta, ifVersion } = options;
    const version = ifVersion === undefined ? undefined : countOf(ifVersion, "--if-version");
    const changes = meta === undefined ? undefined : metadataOf(meta);
    const patch: EntityPatch = patchOf(options);
    if (Object.keys(patch).length === 0 && changes === undefined && unsetMeta === undefined) {
      throw new UsageError(
        "No change is given; give --name, --parent, --plan, --cascade, --meta or another option of `entity update --help`.",
      );
    }
    return onStore(context, options, async (limiter) => {
      if (typeof patch.parentId === "string") await requireParent(limiter, patch.parentId);
      if (typeof patch.planId === "string") await requirePlan(limiter, patch.planId);
      for (;;) {
        const before = await requireEntity(limiter, id);
        requireVersion(before, version);
        const whole = withMetadata(patch, before, { changes, unset: unsetMeta });
        if (options.dryRun === true) {
          if (typeof patch.parentId === "string") await requireNoCycle(limiter, id, patch.parentId);
          const entity = patched(before, checkPatch(id, whole), Date.now());
          await printChange(context, options, entity, () => entityText(entity));
          return EXIT.done;
        }
        try {
          const made = { version: before.version, ...principalOf(context, options) };
          const entity = await limiter.updateEntity(id, whole, made);
          await printChange(context, options, entity, () => entityText(entity));
          return EXIT.done;
        } catch (error) {
          // Somebody else changed it since it was read: metadata that he set must stay, so it is read again.
          const isMeanwhile = error instanceof ConflictError && error.code === "entity_changed";
          if (!isMeanwhile || version !== undefined) throw error;
        }
      }
    });
  },
};

function patchOf({ displayName, parent, plan, cascade }: EntityUpdateOptions): EntityPatch {
  return {
    ...(displayName === undefined ? {} : { name: displayName }),
    ...(parent === undefined ? {} : { parentId: parent === false ? null : parent }),
    ...(plan === undefined ? {} : { planId: plan === "none" ? null : plan }),
    ...(cascade === undefined ? {} : { cascade }),
  };
}

function withMetadata(
  patch: EntityPatch,
  { metadata }: Entity,
  {
    changes,
    unset,
  }: { readonly changes: Readonly<Record<string, string>> | undefined; readonly unset: readonly string[] | undefined },
): EntityPatch {
  if (changes === undefined && unset === undefined) return patch;
  const kept = Object.entries(metadata).filter(([key]) => unset?.includes(key) !== true);
  return { ...patch, metadata: { ...Object.fromEntries(kept), ...changes } };
}

function requireVersion({ id, version }: Entity, wanted: number | undefined): void {
  if (wanted === undefined || wanted === version) return;
  throw new ConflictError(
    "entity_changed",
    `Entity ${id} is at version ${version}, not ${wanted}: it was changed in the meantime. Show it again before you change it.`,
  );
}

/** What the store checks within the change itself. */
async function requireNoCycle(limiter: CommandLimiter, id: string, parentId: string): Promise<void> {
  const path = [id];
  for (
    let above: string | undefined = parentId;
    above !== undefined;
    above = (await limiter.getEntity(above)).parentId
  ) {
    path.push(above);
    if (above === id) {
      throw new ValidationError(
        "entity_cycle",
        `${id} cannot be its own ancestor: ${path.join(" -> ")}. Choose another parent.`,
      );
    }
  }
}
