import type { Limiter } from "../engine/limiter/limiter.ts";
import type { StoredLeases } from "../leases/stored-leases.ts";
import type { Caller } from "./caller.ts";
import type { RouteResponse } from "./route-response.ts";
import type { ServiceParts } from "./service-parts.ts";
import type { Scope } from "./token-entry.ts";
import type { z } from "./vendor.ts";

/** What a handler works with: the input, checked, and who sent it. */
export interface Call<Query, Body> {
  readonly service: ServiceParts;
  /** On the namespace of the path; on routes without one, on the namespace that the service was opened on. */
  readonly limiter: Limiter;
  /** Stored leases of the same namespace. */
  readonly storedLeases: StoredLeases;
  /** As the path has it; empty on routes without one. */
  readonly namespace: string;
  /** `{id}` of the path; empty on routes without one. */
  readonly id: string;
  readonly caller: Caller;
  readonly query: Query;
  readonly body: Body;
  readonly requestId: string;
  readonly request: Request;
  /** Aborted when the client leaves or the time is over. The request waits for tokens for up to `waitMs`. */
  signal(waitMs: number): AbortSignal;
  /** Ends the connection at once; undefined where another program has it. */
  readonly cutOff: (() => void) | undefined;
  /** Gives this request so many ms in place of the usual. */
  extend(answerMs: number): void;
  /** The answer is a stream: the request counts as in progress until what is answered is called. */
  outlive(): () => void;
}

/** An answer as the document describes it. `type` is JSON where it is absent. */
export interface Described {
  readonly description: string;
  readonly schema?: z.ZodType;
  /** Several where the query chooses. */
  readonly type?: string | readonly string[];
  readonly headers?: readonly string[];
}

type Method = "get" | "post" | "put" | "patch" | "delete";

/** One row of the table of routes: its document and its handler. */
export interface Route {
  readonly method: Method;
  /** As OpenAPI writes it: `/v1/namespaces/{namespace}/acquire`. */
  readonly path: string;
  /** What a caller does with it, in a few words. */
  readonly summary: string;
  /** What these words leave open. */
  readonly note?: string;
  /** What the token must be good for; `any`: a token; absent: nobody is asked who they are. */
  readonly scope: Scope | "any" | undefined;
  /** All namespaces are needed. */
  readonly everywhere?: true;
  /** It ends a lease or keeps it from ending: such requests have places of their own, as they free capacity. */
  readonly endsLeases?: true;
  readonly query: z.ZodObject | undefined;
  readonly body: z.ZodObject | undefined;
  /** A repeat with the same `Idempotency-Key` gets the first answer. */
  readonly idempotent?: true;
  /** With `If-Match` or `If-None-Match: *` only while that is what is there; else 412. */
  readonly conditional?: true;
  readonly answers: Readonly<Record<number, Described>>;
  /** Statuses of refusals that only this route has. */
  readonly refusals?: readonly number[];
  handle(call: Call<unknown, unknown>): Promise<RouteResponse> | RouteResponse;
}

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** A route whose handler sees its input as the schemas type it. */
export function route<
  Query extends z.ZodObject | undefined = undefined,
  Body extends z.ZodObject | undefined = undefined,
>(
  given: Omit<Route, "handle" | "query" | "body" | "scope"> & {
    readonly scope?: Route["scope"];
    readonly query?: Query;
    readonly body?: Body;
    handle(call: Call<Output<Query>, Output<Body>>): Promise<RouteResponse> | RouteResponse;
  },
): Route {
  const { query, body, scope, handle } = given;
  return { ...given, query, body, scope, handle: handle as Route["handle"] };
}

/** The path of a namespace. */
export const NS = "/v1/namespaces/{namespace}";
