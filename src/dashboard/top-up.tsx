import { useRef, useState } from "preact/hooks";
import { newKey } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import { Dialog } from "./dialog.tsx";
import { numberOf } from "./number-text.ts";
import { Field } from "./parts.tsx";
import { useAction, useSession } from "./session.tsx";

/** Adds tokens to a bucket. */
export function TopUp(props: {
  readonly row: BucketRow;
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { api, path } = useSession();
  const { entityId, resource, limits } = props.row;
  const [amounts, setAmounts] = useState<Readonly<Record<string, string>>>({});
  // One key for all attempts of this dialog: pressing twice buys once.
  const key = useRef(newKey());
  const { isBusy, error, run } = useAction();
  const given = Object.fromEntries(Object.entries(amounts).filter(([, text]) => text.trim() !== ""));
  const topUp = async () => {
    const done = await run(async () => {
      const whole = Object.fromEntries(Object.entries(given).map(([limit, text]) => [limit, numberOf(limit, text)]));
      await api.sendOnce(`${path}/top-up`, key.current, { entityId, resource, amounts: whole });
      await props.onDone();
    });
    if (done) props.onClose();
    else key.current = newKey();
  };
  return (
    <Dialog
      title="Top up"
      submit="Top up"
      {...{ isBusy, error }}
      isDisabled={Object.keys(given).length === 0}
      onSubmit={() => void topUp()}
      onClose={props.onClose}
    >
      <p>
        Adds tokens to <b class="mono wrap">{entityId}</b> on <b class="wrap">{resource}</b>. A quota gains exactly that
        until it resets; a limit that drips at most the room it has.
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
