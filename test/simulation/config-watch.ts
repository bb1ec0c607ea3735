import type { LevelConfig } from "../../src/domain/config.ts";
import type { MaybePromise } from "../../src/ports/bucket-store.ts";
import type { ScopedStore } from "../../src/ports/store.ts";
import { overriding } from "./port.ts";
import type { Truth } from "./truth.ts";

export interface ConfigWatch {
  readonly truth: Truth;
  /** Gets a reply before the client that asked for it. */
  after<Reply>(reply: MaybePromise<Reply>, tell: (reply: Reply) => void): MaybePromise<Reply>;
  resolved(entityId: string, resource: string, found: LevelConfig): void;
  /** An entity was deleted, and its buckets with it. */
  deleted(entityId: string): void;
}

/** Configuration and entities of a store, with every change of them reported to `Truth`. */
export function watchedConfig(
  { config, entities }: Pick<ScopedStore, "config" | "entities">,
  { truth, after, resolved, deleted }: ConfigWatch,
): Pick<ScopedStore, "config" | "entities"> {
  return {
    config: overriding(config, {
      resolve: (entityId, resource, read) =>
        after(config.resolve(entityId, resource, read), (found) => resolved(entityId, resource, found)),
      set: (at, stored, event) =>
        after(config.set(at, stored, event), () => {
          if (stored.limits !== undefined) truth.setLimits(at, { limits: stored.limits }, event.atMs);
        }),
      setPolicy: (at, change, event) => after(config.setPolicy(at, change, event), () => truth.setPolicy(at, change)),
      delete: (at, event) =>
        after(config.delete(at, event), (was) => {
          if (was) truth.setLimits(at, { limits: [] }, event.atMs);
        }),
    }),
    entities: overriding(entities, {
      create: (entity, event) =>
        after(entities.create(entity, event), ({ kind }) => {
          if (kind === "created") truth.setEntity(entity.id, entity);
        }),
      update: (id, change, event) =>
        after(entities.update(id, change, event), (reply) => {
          if (reply.kind === "updated") truth.setEntity(id, reply.entity);
        }),
      delete: (id, event) =>
        after(entities.delete(id, event), ({ kind }) => {
          if (kind !== "deleted") return;
          truth.setEntity(id, undefined);
          deleted(id);
        }),
    }),
  };
}
