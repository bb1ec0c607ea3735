import type { Answer, Claim, TakenAnswer } from "../ports/bucket-store.ts";

/** How one claim of several is taken and given back. */
export interface ClaimWays {
  /** Rejects with what no caller can do anything about: access denied, a table that is not there, a fault of ours. */
  take(claim: Claim): Promise<Answer>;
  giveBack(claim: Claim, taken: TakenAnswer): Promise<unknown>;
  /** Refused so lately that it is asked first, alone: its siblings must not pay for it at their parent. */
  isSuspect(claim: Claim): boolean;
  /** The answer to a claim that was not asked for, since another was not granted. */
  skipped(claim: Claim): Answer;
}

/** Takes each claim by itself. Where one of them is rejected, the others are given back before anybody hears of it. */
export async function takeSeveral(claims: readonly Claim[], ways: ClaimWays): Promise<readonly Answer[]> {
  const take = (claim: Claim): Promise<Answer | Thrown> =>
    ways.take(claim).catch((error: unknown) => ({ kind: "thrown", error }));
  const suspects = claims.filter((claim) => ways.isSuspect(claim));
  const isSplit = suspects.length > 0 && suspects.length < claims.length;
  const first = await Promise.all((isSplit ? suspects : claims).map(take));
  if (!isSplit) return orGivenBack(claims, first, ways);
  const isGranted = first.every(({ kind }) => kind === "taken");
  const all = claims.map((claim): Answer | Thrown | Promise<Answer | Thrown> => {
    const asked = first[suspects.indexOf(claim)];
    if (asked !== undefined) return asked;
    return isGranted ? take(claim) : ways.skipped(claim);
  });
  return orGivenBack(claims, await Promise.all(all), ways);
}

interface Thrown {
  readonly kind: "thrown";
  readonly error: unknown;
}

async function orGivenBack(
  claims: readonly Claim[],
  answers: readonly (Answer | Thrown)[],
  { giveBack }: ClaimWays,
): Promise<readonly Answer[]> {
  const thrown = answers.find(({ kind }) => kind === "thrown") as Thrown | undefined;
  if (thrown === undefined) return answers as readonly Answer[];
  await Promise.allSettled(
    claims.map(async (claim, i) => {
      const answer = answers[i];
      if (answer?.kind === "taken") await giveBack(claim, answer);
    }),
  );
  throw thrown.error;
}
