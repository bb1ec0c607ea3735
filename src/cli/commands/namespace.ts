import { ConflictError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import { checkNamespace } from "../../domain/names/names.ts";
import type { Namespace } from "../../entry/index.ts";
import { confirmed } from "../ask.ts";
import { type CommandFile, type CommandGroup, examples, type GlobalOptions } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { nearText, onStore } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { principalOf } from "../principal.ts";
import { fieldsText, isJson, pageFrom, printChange, requireUninterrupted } from "../print.ts";
import { jsonOf } from "../printable.ts";
import { progressOf } from "../progress.ts";
import { timeText } from "../show-entity.ts";
import type { Column } from "../table.ts";

const AN_ORPHAN = ["<id>", "its id, from `namespace orphans`"] as const;

const namespaceRegister: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<name...>", "names; existing namespaces stay as they are")
      .addHelpText("after", examples("zae-limiter namespace register tenant-a tenant-b"));
  },
  run: (context, options, names) => {
    for (const name of names) checkNamespace(name);
    return onStore(context, options, async (limiter) => {
      const items: Namespace[] = [];
      for (const name of names) {
        requireUninterrupted(context);
        items.push(
          options.dryRun === true
            ? await planned(limiter, name)
            : await limiter.registerNamespace(name, principalOf(context, options)),
        );
      }
      const dryRun = options.dryRun === true ? { dryRun: true } : {};
      if (options.ndjson === true)
        await context.output.write(items.map((item) => `${jsonOf({ ...item, ...dryRun })}\n`).join(""));
      else if (isJson(options)) await context.output.write(`${jsonOf({ items, ...dryRun })}\n`);
      else await context.output.write(items.map(namespaceText).join("\n"));
      return EXIT.done;
    });
  },
};

/** As it would be; its id is not known before it is made. */
async function planned(limiter: CommandLimiter, name: string): Promise<Namespace> {
  try {
    return await limiter.getNamespace(name);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    return { id: "", name, status: "active", createdAtMs: Date.now() };
  }
}

const namespacePurge: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "its id, from `namespace orphans`")
      .addHelpText("after", examples("zae-limiter namespace orphans", "zae-limiter namespace purge --help"))
      .addHelpText("after", "\nExit codes: 1 it is active, or declined; 4 no deleted namespace has that id.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const orphan = await orphanOf(limiter, id);
      if (orphan === undefined) {
        for await (const namespace of limiter.listNamespaces()) {
          if (namespace.id !== id) continue;
          const message = `The namespace ${namespace.name} (${id}) is active; delete it before purging.`;
          throw new ConflictError("namespace_active", message);
        }
        throw orphanMissing(id);
      }
      await confirmed(context, options, `Delete all data of ${orphan.name} (${id}) permanently?`);
      if (options.dryRun === true) {
        await printChange(
          context,
          options,
          { id, records: 0 },
          () => `All data of ${orphan.name} (${id}) would be deleted.\n`,
        );
        return EXIT.done;
      }
      const progress = progressOf(context, options);
      const onProgress = (records: number) => progress.tell(`${records} records removed`);
      const { records } = await limiter.purgeNamespace(id, { onProgress, ...principalOf(context, options) });
      progress.end();
      await printChange(
        context,
        options,
        { id, records },
        () => `Purged ${orphan.name} (${id}): ${records} records deleted.\n`,
      );
      return EXIT.done;
    }),
};

/** The active namespace of a name. */
async function requireNamespace(limiter: CommandLimiter, name: string): Promise<Namespace> {
  try {
    return await limiter.getNamespace(name);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    const known = (await limiter.listNamespaces({ limit: 1000 })).map((namespace) => namespace.name);
    throw new NotFoundError("namespace_not_found", `There is no namespace "${name}"${nearText(name, known)}`);
  }
}

/** The deleted namespace of an id. Undefined: it is none of them, which the store will say in its own words. */
async function orphanOf(limiter: CommandLimiter, id: string): Promise<Namespace | undefined> {
  for await (const namespace of limiter.listOrphanNamespaces()) if (namespace.id === id) return namespace;
  return undefined;
}

/** A deleted namespace as it would be once it is recovered; throws where it could not be. */
async function recoverable(limiter: CommandLimiter, id: string): Promise<Namespace> {
  const found = await orphanOf(limiter, id);
  let isNameTaken = false;
  for await (const { id: each, name, status } of limiter.listNamespaces()) {
    if (each === id) {
      throw new ConflictError(
        "namespace_not_deleted",
        `The namespace ${id} is ${status}; only deleted namespaces can be recovered.`,
      );
    }
    isNameTaken ||= name === found?.name;
  }
  if (found === undefined) throw orphanMissing(id);
  if (isNameTaken) {
    throw new ConflictError(
      "namespace_name_taken",
      `The name ${found.name} is in use again; delete that namespace before recovering ${id}.`,
    );
  }
  const { deletedAtMs: _, ...kept } = found;
  return { ...kept, status: "active" };
}

function orphanMissing(id: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    `There is no deleted namespace with the id ${id}; \`zae-limiter namespace orphans\` shows the ids.`,
  );
}

function namespaceText({ id, name, status, createdAtMs, deletedAtMs }: Namespace): string {
  return fieldsText({
    name,
    id,
    status,
    // The namespace that a store is born with has no date.
    created: createdAtMs === 0 ? undefined : timeText(createdAtMs),
    deleted: deletedAtMs === undefined ? undefined : timeText(deletedAtMs),
  });
}

const NAMESPACE_COLUMNS: readonly Column<Namespace>[] = [
  { title: "NAME", text: ({ name }) => name },
  { title: "ID", text: ({ id }) => id },
  { title: "STATUS", text: ({ status }) => status },
  { title: "CREATED", text: ({ createdAtMs }) => (createdAtMs === 0 ? "" : timeText(createdAtMs)) },
];

export const NAMESPACE_COMMANDS: CommandGroup = {
  "namespace register": namespaceRegister,
  "namespace list": list({
    examples: ["namespace list"],
    source: (limiter) => ({
      page: (request) => pageFrom(limiter.listNamespaces(request)),
      columns: NAMESPACE_COLUMNS,
      empty: "There are no namespaces.",
    }),
  }),
  "namespace show": show({
    argument: ["<name>", "the namespace"],
    examples: ["namespace show default"],
    note: "Exit codes: 4 no such namespace.",
    get: requireNamespace,
    text: namespaceText,
  }),
  "namespace delete": change<Namespace>({
    argument: ["<name>", "the namespace; its data stays until it is purged"],
    examples: ["namespace delete tenant-z --yes"],
    note: "Exit codes: 1 declined, 4 no such namespace.",
    ask: async (limiter, name) => {
      await requireNamespace(limiter, name);
      if (name === "default") {
        throw new ValidationError(
          "namespace_default",
          "The namespace default cannot be deleted; delete its entities instead.",
        );
      }
      return `Delete the namespace ${name}? Requests in it will fail; its data stays until it is purged.`;
    },
    planned: async (limiter, name) => ({
      ...(await requireNamespace(limiter, name)),
      status: "deleted",
      deletedAtMs: Date.now(),
    }),
    made: (limiter, name, by) => limiter.deleteNamespace(name, by),
    text: namespaceText,
  }),
  "namespace recover": change<Namespace>({
    argument: AN_ORPHAN,
    examples: ["namespace orphans", "namespace recover --help"],
    note: "Exit codes: 1 its name is in use again, 4 no deleted namespace has that id.",
    planned: recoverable,
    made: (limiter, id, by) => limiter.recoverNamespace(id, by),
    text: namespaceText,
  }),
  "namespace orphans": list({
    examples: ["namespace orphans"],
    source: (limiter) => ({
      page: (request) => pageFrom(limiter.listOrphanNamespaces(request)),
      columns: NAMESPACE_COLUMNS,
      empty: "No deleted namespace has data left.",
    }),
  }),
  "namespace purge": namespacePurge,
};
