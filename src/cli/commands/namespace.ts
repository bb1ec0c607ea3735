import { ConflictError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { checkNamespace } from "../../domain/names/names.ts";
import type { Namespace, NamespaceShown } from "../../entry/index.ts";
import { type CommandGroup, command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { unlessMissing } from "../known.ts";
import { timeText } from "../named-records.ts";
import { type CommandLimiter, nearText, onStore } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { confirmed, fieldsText, isJson, pageFrom, printChange, progressLine, requireUninterrupted } from "../print.ts";
import { principalOf } from "../store-option.ts";
import { type Column, jsonOf } from "../table.ts";

const AN_ORPHAN = [["<id>", "its id, from `namespace orphans`"]] as const;

const namespaceRegister = command({
  arguments: [["<name...>", "names; existing namespaces stay as they are"]],
  examples: ["namespace register tenant-a tenant-b"],
  run: (context, _, names) => {
    for (const name of names) checkNamespace(name);
    const isDryRun = context.options.dryRun === true;
    return onStore(context, async (limiter) => {
      const items: Namespace[] = [];
      for (const name of names) {
        requireUninterrupted(context);
        const made = isDryRun ? planned(limiter, name) : limiter.registerNamespace(name, principalOf(context));
        items.push(await made);
      }
      const dryRun = isDryRun ? { dryRun: true } : {};
      if (context.options.ndjson === true)
        await context.output.write(items.map((item) => `${jsonOf({ ...item, ...dryRun })}\n`).join(""));
      else if (isJson(context)) await context.output.write(`${jsonOf({ items, ...dryRun })}\n`);
      else await context.output.write(items.map(namespaceText).join("\n"));
      return EXIT.done;
    });
  },
});

/** A namespace as it would be registered. Its id is not known before it is made. */
function planned(limiter: CommandLimiter, name: string): Promise<Namespace> {
  return unlessMissing("namespace_not_found", limiter.getNamespace(name), async () => ({
    id: "",
    name,
    status: "active" as const,
    createdAtMs: Date.now(),
  }));
}

const namespacePurge = command({
  arguments: AN_ORPHAN,
  examples: ["namespace orphans", "namespace purge --help"],
  notes: ["Exit codes: 1 it is active, or declined; 4 no deleted namespace has that id."],
  run: (context, _, [id = ""]) =>
    onStore(context, async (limiter) => {
      const orphan = await orphanOf(limiter, id);
      if (orphan === undefined) {
        for await (const namespace of limiter.listNamespaces()) {
          if (namespace.id !== id) continue;
          const message = `The namespace ${namespace.name} (${id}) is active; delete it before purging.`;
          throw new ConflictError("namespace_active", message);
        }
        throw orphanMissing(id);
      }
      await confirmed(context, `Delete all data of ${orphan.name} (${id}) permanently?`);
      if (context.options.dryRun === true) {
        const text = () => `All data of ${orphan.name} (${id}) would be deleted.\n`;
        return printChange(context, { id, records: 0 }, text);
      }
      const progress = progressLine(context, 1_000);
      const onProgress = (records: number) => progress.tell(`${records} records removed`);
      const { records } = await limiter.purgeNamespace(id, { onProgress, ...principalOf(context) });
      progress.end();
      const text = () => `Purged ${orphan.name} (${id}): ${records} records deleted.\n`;
      return printChange(context, { id, records }, text);
    }),
});

/** The active namespace of a name. */
function requireNamespace(limiter: CommandLimiter, name: string): Promise<NamespaceShown> {
  return unlessMissing("namespace_not_found", limiter.getNamespace(name), async () => {
    const known = (await limiter.listNamespaces({ limit: 1000 })).map((namespace) => namespace.name);
    throw new NotFoundError("namespace_not_found", `There is no namespace "${name}"${nearText(name, known)}`);
  });
}

/** The deleted namespace of an id; undefined: there is none. */
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

function namespaceText({ id, name, status, createdAtMs, deletedAtMs, frozen }: NamespaceShown): string {
  return fieldsText({
    name,
    id,
    status,
    frozen: frozen && `yes${frozen.reason === undefined ? "" : `: ${frozen.reason}`}`,
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
    arguments: [["<name>", "the namespace"]],
    examples: ["namespace show default"],
    notes: ["Exit codes: 4 no such namespace."],
    get: requireNamespace,
    text: namespaceText,
  }),
  "namespace delete": change<Namespace>({
    arguments: [["<name>", "the namespace; its data stays until it is purged"]],
    examples: ["namespace delete tenant-z --yes"],
    notes: ["Exit codes: 1 declined, 4 no such namespace."],
    before: async (limiter, name) => {
      await requireNamespace(limiter, name);
      if (name === "default") {
        throw new ValidationError(
          "namespace_default",
          "The namespace default cannot be deleted; delete its entities instead.",
        );
      }
      return `Delete the namespace ${name}? Requests in it will fail; its data stays until it is purged.`;
    },
    plan: async (limiter, name) => ({
      ...(await requireNamespace(limiter, name)),
      status: "deleted",
      deletedAtMs: Date.now(),
    }),
    make: (limiter, name, by) => limiter.deleteNamespace(name, by),
    text: namespaceText,
  }),
  "namespace freeze": change({
    arguments: [["<name>", "the namespace"]],
    options: [["--reason <text>", "why; those who are refused are told"]],
    examples: ["namespace freeze default --reason maintenance"],
    notes: [
      "Acquires, top-ups and resets are refused (namespace_frozen), whatever access is set; leases are settled and rolled back. Every process" +
        " knows it with its next request, on DynamoDB within its configTtlMs.\n\nExit codes: 4 no such namespace.",
    ],
    read: (options, [name = ""]) => ({ name, ...given({ reason: options.reason }) }),
    before: async (limiter, { name }) => void (await requireNamespace(limiter, name)),
    plan: (_, { name, ...frozen }) => ({ name, frozen }),
    make: async (limiter, { name, ...frozen }, by) => void (await limiter.freezeNamespace(name, { ...frozen, ...by })),
    text: (_, { name, reason }) => `${name} is frozen${reason === undefined ? "" : ` (${reason})`}.\n`,
  }),
  "namespace unfreeze": change({
    arguments: [["<name>", "the namespace"]],
    examples: ["namespace unfreeze default"],
    notes: ["Exit codes: 4 no such namespace."],
    before: async (limiter, name: string) => void (await requireNamespace(limiter, name)),
    plan: (_, name) => ({ name }),
    make: async (limiter, name, by) => void (await limiter.unfreezeNamespace(name, by)),
    text: (_, name) => `${name} is not frozen.\n`,
  }),
  "namespace recover": change<Namespace>({
    arguments: AN_ORPHAN,
    examples: ["namespace orphans", "namespace recover --help"],
    notes: ["Exit codes: 1 its name is in use again, 4 no deleted namespace has that id."],
    plan: recoverable,
    make: (limiter, id, by) => limiter.recoverNamespace(id, by),
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
