import { measureOf } from "../../src/domain/charge/amounts.ts";
import { LEVELS_MAX } from "../../src/domain/config/entity.ts";
import { isHard, type Limit } from "../../src/domain/limits/limit.ts";
import { LimiterError, ValidationError } from "../../src/domain/names/errors.ts";
import type { AcquireRequest } from "../../src/engine/acquire/request.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import type { Client, Surroundings } from "./client.ts";
import { changePlans, changeTotals, lookAtTotals } from "./level-stories.ts";
import { Operation, runAs } from "./operation.ts";
import type { Scene, Story } from "./scene.ts";
import { changeLimits, drawRequest, readingOf } from "./stories.ts";

/** The limits of one level, as it is stored: on the resource, and over all of them. */
interface Stored {
  readonly entityId: string;
  readonly limits: readonly Limit[];
  readonly totals: readonly Limit[];
}

/** Looks without taking. Whoever asks is shown what is stored, whichever process changed it and whatever this one remembers. */
export const look: Story = async (scene) => {
  const { random, around } = scene;
  const request = drawRequest(scene);
  await lookForTokens(scene, request);
  if (around.profile.levels !== undefined) await lookAtTotals(scene);
  if (random.chance(0.5)) await lookForWait(scene, request);
  if (random.chance(0.5)) await lookForReasons(scene, request);
};

/** The last changes of a world: everybody looks right after each of them. No call fails or waits any more. */
export async function lookAfterChanges(around: Surroundings, clients: readonly Client[], seed: number): Promise<void> {
  const random = new SeededRandom(seed + 2 ** 46);
  const { profile, truth } = around;
  const resource = random.pick(profile.resources);
  const does = async (client: Client, name: string, story: Story): Promise<void> => {
    const operation = new Operation(`${client.id}.last-${name}`, client.id);
    try {
      await runAs(operation, () => story({ client, operation, random, around, signal: undefined }));
    } catch (error) {
      // There may be no limits, or levels that do not go together.
      if (!(error instanceof LimiterError)) throw error;
    }
  };
  for (let changes = 0; changes < 4; changes++) {
    if (changes > 0) {
      await does(random.pick(clients), "change", random.pick([changeLimits, changeLimits, changePlans, changeTotals]));
    }
    for (const client of clients) {
      for (const entityId of profile.entities) {
        const limit = truth.limitsOf(entityId, resource).find(isHard);
        const consume = limit === undefined ? {} : { [measureOf(limit)]: limit.capacity };
        for (const looks of [lookForTokens, lookForReasons, lookForWait]) {
          await does(client, "look", (scene) => looks(scene, { entityId, resource, consume }));
        }
      }
    }
  }
}

async function lookForTokens(scene: Scene, request: AcquireRequest): Promise<void> {
  const { answer, isOfNow } = await asked(scene, () => scene.client.limiter.available(request));
  for (const { limit, available, capacity } of answer) {
    if (available > capacity) scene.around.journal.violation(`${available} of ${limit} are available of ${capacity}`);
  }
  const stored = storedFor(scene, request);
  if (!isOfNow || stored === undefined) return;
  const due = stored.flatMap(({ entityId, limits, totals }) =>
    [...limits, ...totals].map(({ name }) => `${entityId} ${name}`),
  );
  const told = answer.map(({ entityId, limit }) => `${entityId} ${limit}`);
  if (due.join() !== told.join()) isOld(scene, `of ${due.join(", ")} ${told.join(", ")} are shown`);
}

async function lookForWait(scene: Scene, request: AcquireRequest): Promise<void> {
  const { client, around } = scene;
  const { truth } = around;
  const { also: _, ...alone } = request;
  const isRefused = () => truth.refuses(alone, Number.POSITIVE_INFINITY, readingOf(client));
  const { answer, isOfNow } = await asked(scene, () =>
    client.limiter.timeUntilAvailable(request).catch((error) => {
      if (error instanceof ValidationError) return error;
      throw error;
    }),
  );
  const isWrong = answer instanceof ValidationError;
  if (isOfNow && storedFor(scene, request) !== undefined) {
    const isNever = answer === Number.POSITIVE_INFINITY && !truth.isDisabled(request.entityId, request.resource);
    if ((isNever || isWrong) && !isRefused()) isOld(scene, isWrong ? answer.message : "never is told of what can fit");
  }
  if (isWrong) throw answer;
}

async function lookForReasons(scene: Scene, request: AcquireRequest): Promise<void> {
  const { answer, isOfNow } = await asked(scene, () => scene.client.limiter.explain(request));
  const stored = storedFor(scene, request);
  if (!isOfNow || stored === undefined) return;
  const told = answer.levels.map(({ entityId, limits, totals }): Stored => {
    return { entityId, limits: limits.map(definition), totals: totals.map(definition) };
  });
  if (JSON.stringify(told) === JSON.stringify(stored)) return;
  isOld(scene, `${JSON.stringify(told)} is explained, not ${JSON.stringify(stored)}`);
}

function definition({ definition }: { readonly definition: Limit }): Limit {
  return definition;
}

/** An answer; `isOfNow`: while it was asked for, nothing changed. */
async function asked<Answer>({ around: { truth, journal, errorMs } }: Scene, ask: () => Promise<Answer>) {
  const before = truth.changes;
  const ends = truth.endsPassed(errorMs());
  const answer = await ask();
  const isOfNow = truth.changes === before && truth.endsPassed(errorMs()) === ends;
  if (isOfNow) journal.count("questions judged");
  return { answer, isOfNow };
}

/** Undefined where limits may be brought with requests: a bucket may go by those for longer, by the clock of whoever brought them. */
function storedFor({ around }: Scene, { entityId, resource }: AcquireRequest): readonly Stored[] | undefined {
  const { profile, truth } = around;
  if (profile.limitsGiven) return undefined;
  const stored: Stored[] = [];
  let id: string | undefined = entityId;
  while (id !== undefined && stored.length < LEVELS_MAX && !stored.some((one) => one.entityId === id)) {
    const { onResource, totals, access, next } = truth.level(id, resource);
    const isParent = stored.length > 0;
    const over = access === "bypass" ? [] : isParent ? totals.forEveryone : totals.limits;
    stored.push({ entityId: id, limits: isParent ? onResource.forEveryone : onResource.limits, totals: over });
    id = next;
  }
  return stored;
}

function isOld({ operation, around }: Scene, what: string): void {
  around.journal.violation(`${operation.name} was answered by old configuration: ${what}`);
}
