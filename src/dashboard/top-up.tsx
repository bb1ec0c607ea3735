import { useRef, useState } from "preact/hooks";
import { newKey } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import type { Reading } from "./chain-level.tsx";
import { Dialog } from "./dialog.tsx";
import { rateOf } from "./level.ts";
import { useLevel } from "./observable.ts";
import { Field, TextInput } from "./parts.tsx";
import { useSession } from "./session.tsx";
import type { Amounts, LimitExplanation } from "./shapes.ts";
import { numberOf, resourceWords, tokensWords } from "./words.ts";

/** Tokens by limit: the amounts that were given, and the part of them that fitted. */
export interface ToppedUp {
  readonly given: Amounts;
  readonly gained: Amounts;
}

export function TopUp(props: {
  readonly row: BucketRow;
  readonly onDone: (toppedUp: ToppedUp) => Promise<void>;
  readonly onClose: () => void;
}) {
  const { api, path } = useSession();
  const { row, onDone, onClose } = props;
  const { entityId, resource } = row;
  // Slots have no balance to fill.
  const limits = row.limits.filter(({ kind }) => kind !== "concurrent");
  const [amounts, setAmounts] = useState<Readonly<Record<string, string>>>({});
  // All attempts of this dialog share a key, so that a double click adds the tokens once.
  const key = useRef(newKey());
  const typed = Object.fromEntries(Object.entries(amounts).filter(([, text]) => text.trim() !== ""));
  const topUp = async () => {
    try {
      const given = Object.fromEntries(Object.entries(typed).map(([limit, text]) => [limit, numberOf(limit, text)]));
      const request = { entityId, resource, amounts: given };
      const answer = await api.sendOnce<{ amounts: ToppedUp["gained"] }>(`${path}/top-up`, key.current, request);
      await onDone({ given, gained: answer.amounts });
    } catch (thrown) {
      key.current = newKey();
      throw thrown;
    }
  };
  return (
    <Dialog title="Top up" submit="Top up" isDisabled={Object.keys(typed).length === 0} act={topUp} onClose={onClose}>
      <p>
        Adds tokens to <b class="mono wrap">{entityId}</b> on <b class="wrap">{resourceWords(resource)}</b>. A quota
        keeps the whole amount until its next reset; a limit that refills gains at most up to its capacity.
      </p>
      {limits.map(({ limit }) => (
        <Field key={limit} label={limit}>
          <TextInput
            testid="top-up-amount"
            data-limit={limit}
            value={amounts[limit] ?? ""}
            onValue={(text) => setAmounts({ ...amounts, [limit]: text })}
          />
        </Field>
      ))}
    </Dialog>
  );
}

/** The result of a top-up, with the levels as they are now. */
export function TopUpDone(
  props: ToppedUp & {
    readonly limits: readonly LimitExplanation[];
    readonly reading: (limit: LimitExplanation) => Reading;
  },
) {
  const { given, gained, limits, reading } = props;
  return (
    <>
      Topped up:{" "}
      {Object.entries(given).map(([name, amount], i) => {
        const limit = limits.find((each) => each.limit === name);
        const arrived = gained[name] ?? 0;
        return (
          <span key={name}>
            {i > 0 && ", "}
            {tokensWords(name, arrived)} {name}
            {arrived < amount && ` (of ${tokensWords(name, amount)}; the limit is full)`}
            {limit !== undefined && (
              <>
                , now <NowLeft limit={limit} {...reading(limit)} />
              </>
            )}
          </span>
        );
      })}
      .
    </>
  );
}

function NowLeft({ limit, held, readAtMs }: Reading & { readonly limit: LimitExplanation }) {
  const level = useLevel(held, rateOf(limit.definition, held.capacity), readAtMs);
  return (
    <>
      {tokensWords(limit.limit, level)} of {tokensWords(limit.limit, held.capacity)}
    </>
  );
}
