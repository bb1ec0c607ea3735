import type { ItemAnswer, ItemStore, ItemWrite, TransactionAnswer } from "../../src/ports/item-store.ts";
import type { Journal } from "./journal.ts";
import { currentOperation } from "./operation.ts";
import { heard, overriding } from "./port.ts";

const NONCE = /^n[0-9a-f]$/;

/** The line of a process to its items: counts what happens on it, and keeps a journal of what fails. */
export function watchedItems(
  items: ItemStore,
  {
    journal,
    onFault,
    onSent,
    onLost,
    onLate,
  }: {
    readonly journal: Journal;
    readonly onFault: (told: string) => void;
    readonly onSent: (write: ItemWrite) => void;
    /** The answer to this write was lost. */
    readonly onLost: (write: ItemWrite) => void;
    /** Whether it was applied, as an answer tells that came too late. */
    readonly onLate: (write: ItemWrite, isApplied: boolean) => void;
  },
): ItemStore {
  const failed = (call: string, answer: ItemAnswer | TransactionAnswer) => {
    if (answer.kind === "refused") onFault(`${call} ${answer.kind} as ${answer.why}`);
    if (answer.kind === "unknown") onFault(`${call} ${answer.kind}`);
  };
  const reached = () => {
    const operation = currentOperation();
    if (operation !== undefined) operation.itemCalls++;
  };
  return overriding(items, {
    write: (write, call) => {
      reached();
      onSent(write);
      return heard(items.write(write, call), (answer) => {
        failed("write", answer);
        if (answer.kind === "unknown") onLost(write);
        if (answer.kind === "unknown") {
          void answer.later?.then((late) => {
            if (late.kind !== "unknown") onLate(write, late.kind === "applied");
          });
        }
        journal.detail(() => `${answer.kind}: ${shownWrite(write)}`);
        if (answer.kind !== "failed") return;
        journal.count("rounds that failed");
        if (isOwn(write, answer)) journal.count("found to have landed");
      });
    },
    transact: (writes, options, call) => {
      reached();
      return heard(items.transact(writes, options, call), (answer) => {
        failed("transact", answer);
        journal.detail(() => `${answer.kind} together: ${writes.map(shownWrite).join(" AND ")}`);
        if (answer.kind === "failed") journal.count("transactions that failed");
      });
    },
    read: (keys, options, call) => {
      reached();
      const lost = (error: unknown): never => {
        onFault("read lost");
        throw error;
      };
      try {
        const reply = items.read(keys, options, call);
        return reply instanceof Promise ? reply.catch(lost) : reply;
      } catch (error) {
        return lost(error);
      }
    },
  });
}

/** One write in one line: the item, what it stands on, what it does. */
export function shownWrite({ key, kind, item, when, set, add, remove, trace }: ItemWrite): string {
  const clauses = when.map((clause) => clause.map((one) => Object.values(one).join(" ")).join(" or "));
  const parts = [
    `${trace?.form ?? ""} ${kind} ${key.bucket.id.replace("\n", "/")}#${key.shard}${key.operation ?? ""} (${item})`,
    clauses.length === 0 ? "" : `IF ${clauses.join(", ")}`,
    Object.keys(set).length === 0 ? "" : `SET ${JSON.stringify(set)}`,
    Object.keys(add).length === 0 ? "" : `ADD ${JSON.stringify(add)}`,
    remove.length === 0 ? "" : `REMOVE ${remove.join()}`,
    trace === undefined ? "" : `at ${trace.readingMs}`,
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function isOwn({ set }: ItemWrite, answer: ItemAnswer & { readonly kind: "failed" }): boolean {
  const [slot] = Object.keys(set).filter((name) => NONCE.test(name));
  return slot !== undefined && answer.item?.[slot] === set[slot];
}
