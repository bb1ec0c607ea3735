import type { Tokens } from "../../src/domain/charge/amounts.ts";
import type { CorrectionRequest, CorrectionResult } from "../../src/engine/acquire/without-lease.ts";
import { checkClosed, checkGranted, checkUntouched } from "./checks.ts";
import { askedBefore, type CorrectionUse, CorrectionWatch, isUnderWay } from "./correction-checks.ts";
import { work } from "./lease-work.ts";
import type { Scene, Story } from "./scene.ts";
import { asks, drawRequest } from "./stories.ts";

/** Charges or gives back without a lease; now and then under a key that is used again, at once, afterwards or by somebody else. */
export const correct: Story = async (scene) => {
  const { random } = scene;
  const use = random.weighted<CorrectionUse>([
    [4, "charge"],
    [5, "giveBack"],
  ]);
  if (use === "giveBack" && random.chance(0.3)) return giveBackAfterUse(scene);
  await correctOnce(scene, use, drawCorrection(scene));
};

/** A lease is settled, and only afterwards it is known that less was used. */
async function giveBackAfterUse(scene: Scene): Promise<void> {
  const { client, random, operation } = scene;
  const { limits: _, ...request } = drawRequest(scene, { wait: false });
  asks(scene, request);
  const outcome = await client.limiter.tryAcquire(request);
  if (!outcome.ok) return checkUntouched(scene);
  const { lease } = outcome;
  checkGranted(scene, lease);
  await work(scene, lease);
  operation.isClosing = true;
  await lease.settle();
  checkClosed(scene);
  const amounts: Record<string, number> = {};
  for (const [measure, tokens] of Object.entries(lease.consumed)) {
    if (tokens !== undefined && random.chance(0.8)) amounts[measure] = random.integer(0, tokens);
  }
  const { entityId, resource } = request;
  await correctOnce(scene, "giveBack", { entityId, resource, amounts });
}

async function correctOnce(scene: Scene, use: CorrectionUse, asked: CorrectionRequest): Promise<void> {
  const { random, operation, around, client } = scene;
  const known = random.chance(0.25) ? askedBefore(scene, use) : undefined;
  const isKeyed = random.chance(0.5);
  const request = known ?? (isKeyed ? { ...asked, idempotencyKey: operation.name } : asked);
  const { amounts, also, entityId, resource, idempotencyKey } = request;
  const consume = { requests: 0, ...amounts };
  operation.request = { entityId, resource, consume, ...(also === undefined ? {} : { also }) };
  const watch = new CorrectionWatch(scene, use, request);
  const isAgain = idempotencyKey !== undefined;
  const answers: CorrectionResult[] = [];
  const errors: unknown[] = [];
  const act = async (): Promise<void> => {
    try {
      answers.push(await client.limiter[use](request));
    } catch (error) {
      // Another call is under way under the key, or its process died with it.
      if (isAgain && isUnderWay(error)) around.journal.count("corrections under way under their key");
      else errors.push(error);
    }
  };
  around.journal.count(`${use} asked for`);
  await (isAgain && random.chance(0.25) ? Promise.all([act(), act()]) : act());
  // Whoever is not sure that it came through does it again.
  if (isAgain && random.chance(0.4)) await act();
  if (answers.length > 0) watch.answered(answers);
  else watch.failed();
  if (errors.length > 0) throw errors[0];
}

/** Amounts as of a request. */
function drawCorrection(scene: Scene): CorrectionRequest {
  const { entityId, resource, consume = {}, also } = drawRequest(scene, { wait: false });
  return { entityId, resource, amounts: consume as Tokens, ...(also === undefined ? {} : { also }) };
}
