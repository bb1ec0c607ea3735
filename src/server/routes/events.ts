import { checkBucketResource, checkEntityId } from "../../domain/names/names.ts";
import { NS, type Route, route } from "../route.ts";
import { eventsQuery } from "../schemas/input.ts";

export const eventRoutes: readonly Route[] = [
  route({
    method: "get",
    path: `${NS}/events`,
    scope: "read",
    summary: "Follow events",
    note: "Events of the namespace, as they happen.",
    query: eventsQuery,
    answers: { 200: { description: "Server-sent events.", type: "text/event-stream" } },
    handle: async ({ service, limiter, namespace, caller, query, request, cutOff }) => {
      const headers = { "content-type": "text/event-stream", "x-accel-buffering": "no" };
      // A namespace that is not there is told now: later there is nobody to tell.
      await limiter.getNamespace(namespace);
      if (request.method === "HEAD") return { status: 200, headers };
      const { entityId, resource, types } = query;
      // A name that can never come would be a stream in which nothing happens.
      if (entityId !== undefined) checkEntityId(entityId);
      if (resource !== undefined) checkBucketResource(resource);
      const stream = service.feeds.open({
        namespace,
        filter: { entityId, resource, types: types === undefined ? undefined : new Set(types) },
        token: caller.token,
        lastEventId: request.headers.get("last-event-id"),
        cutOff,
      });
      return { status: 200, stream, headers };
    },
  }),
];
