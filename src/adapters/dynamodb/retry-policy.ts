/**
 * How often this adapter asks DynamoDB again, and how long it waits in between: all of it, on one page.
 *
 * What it does not decide: an acquire's own writes are sent once each by this adapter, and `protocol/` decides whether to send
 * again. The bound of a whole call comes from its caller: `timeoutMs` for what somebody waits for with a request, and the
 * adapter's `adminTimeoutMs` for the rest.
 */
export const RETRY = {
  /** Before the next attempt of a read or of a record's write: from half of this up to this, doubled for each attempt in vain. */
  pauseMs: 10,
  /** It doubles up to six times: 640 ms at most. */
  pauseDoublingsMax: 6,
  /** One attempt for a record never uses up all the time: an answer that was lost is asked for again. */
  attemptMaxMs: 3_000,
  /** At the first contact: so many calls in a row that never reach the service end it, after about half a second. */
  unsentMax: 7,
  /** A request is signed again once: after credentials that had expired, or a clock that was wrong. */
  signaturesMax: 2,
  /** A change of a record that somebody else changed first is worked out anew so often. */
  changesMax: 50,
  /** An item that is made is pinned to its owner: so often that is read anew, where the owner changed meanwhile. */
  ownersMax: 5,
  /** On a shared table: how often limits are installed on a bucket that the original changes meanwhile. */
  installsMax: 10,
  /** An index follows its table after a moment: a second pass finds what the first did not show yet. */
  indexPasses: 2,
  /** What deletes a namespace goes on until a pass finds nothing, but not for ever. */
  removalPassesMax: 20,
  /** Between two looks at a table that is being made or deleted. */
  tablePollMs: 200,
} as const;
