import { useRef, useState } from "preact/hooks";
import { newKey } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import type { Reading } from "./chain-level.tsx";
import { Dialog } from "./dialog.tsx";
import { rateOf } from "./level.ts";
import { numberOf } from "./number-text.ts";
import { Field } from "./parts.tsx";
import { useAction, useSession } from "./session.tsx";
import type { LimitExplanation } from "./shapes.ts";
import { useLevel } from "./tick.ts";
import { resourceWords, tokensWords } from "./words.ts";

/** What was given and what of it arrived, by limit. */
export interface ToppedUp {
  readonly given: Readonly<Record<string, number>>;
  readonly gained: Readonly<Record<string, number>>;
}

/** Adds tokens to a bucket. */
export function TopUp(props: {
  readonly row: BucketRow;
  readonly onDone: (toppedUp: ToppedUp) => Promise<void>;
  readonly onClose: () => void;
}) {
  const { api, path } = useSession();
  const { entityId, resource } = props.row;
  // Slots have no balance to fill.
  const limits = props.row.limits.filter(({ kind }) => kind !== "concurrent");
  const [amounts, setAmounts] = useState<Readonly<Record<string, string>>>({});
  // One key for all attempts of this dialog: pressing twice buys once.
  const key = useRef(newKey());
  const { isBusy, error, run } = useAction();
  const typed = Object.fromEntries(Object.entries(amounts).filter(([, text]) => text.trim() !== ""));
  const topUp = async () => {
    const done = await run(async () => {
      const given = Object.fromEntries(Object.entries(typed).map(([limit, text]) => [limit, numberOf(limit, text)]));
      const request = { entityId, resource, amounts: given };
      const { amounts: gained } = await api.sendOnce<{ amounts: ToppedUp["gained"] }>(
        `${path}/top-up`,
        key.current,
        request,
      );
      await props.onDone({ given, gained });
    });
    if (done) props.onClose();
    else key.current = newKey();
  };
  return (
    <Dialog
      title="Top up"
      submit="Top up"
      {...{ isBusy, error }}
      isDisabled={Object.keys(typed).length === 0}
      onSubmit={() => void topUp()}
      onClose={props.onClose}
    >
      <p>
        Adds tokens to <b class="mono wrap">{entityId}</b> on <b class="wrap">{resourceWords(resource)}</b>. A quota
        keeps the whole amount until its next reset; a limit that refills gains at most up to its capacity.
      </p>
      {limits.map(({ limit }) => (
        <Field key={limit} label={limit}>
          <input
            type="text"
            data-testid="top-up-amount"
            data-limit={limit}
            value={amounts[limit] ?? ""}
            onInput={(event) => setAmounts({ ...amounts, [limit]: event.currentTarget.value })}
          />
        </Field>
      ))}
    </Dialog>
  );
}

/** That it succeeded, and what is there now. */
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
