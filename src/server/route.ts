import type { Calendar } from "../domain/limits/schedule.ts";
import { given } from "../domain/names/given.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { StoredLeases } from "../leases/stored-leases.ts";
import type { Clock, Random } from "../ports/system.ts";
import type { Caller } from "./caller.ts";
import type { EventFeeds } from "./event-feeds.ts";
import type { Metrics, RecentFaults } from "./metrics.ts";
import type { ServiceSettings } from "./options.ts";
import type { RouteResponse } from "./problem.ts";
import type { Tenants } from "./tenants.ts";
import type { Scope } from "./tokens.ts";
import { z } from "./vendor.ts";

/** The parts of one service that its routes share. */
export interface ServiceParts {
  readonly settings: ServiceSettings;
  /** On the namespace that the service was opened on. */
  readonly limiter: Limiter;
  readonly tenants: Tenants;
  readonly feeds: EventFeeds;
  readonly metrics: Metrics;
  readonly faults: RecentFaults;
  readonly clock: Clock;
  readonly random: Random;
  readonly calendar: Calendar;
  /** For `/metrics` and the start line. */
  readonly storeName: string;
  readonly version: string;
  /** Whether the store answers; asked at most once a second. */
  isReady(): Promise<boolean>;
  /** True from the first sign of a stop on. */
  isStopping(): boolean;
  /** The OpenAPI document; made when it is first asked for. */
  document(): object;
}

/** A request as its route sees it: the input, checked, and the caller. */
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
  /** The answer is a stream: the request counts as in progress until the returned function is called. */
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
  readonly summary: string;
  /** Details that the summary leaves open. */
  readonly note?: string;
  /** The scope that a token needs; `any`: any token; undefined: no token. */
  readonly scope: Scope | "any" | undefined;
  /** The token must be good for all namespaces. */
  readonly everywhere?: true;
  /** It ends a lease or keeps it from ending: such requests have places of their own, as they free capacity. */
  readonly endsLeases?: true;
  readonly query: z.ZodObject | undefined;
  readonly body: z.ZodObject | undefined;
  /** The most bytes of a body, where that is more than `--body-max`. */
  readonly bodyMax?: number;
  /** A repeat with the same `Idempotency-Key` gets the first answer. */
  readonly idempotent?: true;
  /** With `If-Match` or `If-None-Match: *` only while that is what is there; else 412. */
  readonly conditional?: true;
  readonly answers: Readonly<Record<number, Described>>;
  /** Statuses of refusals that only this route has. */
  readonly refusals?: readonly number[];
  handle(call: Call<unknown, unknown>): Promise<RouteResponse> | RouteResponse;
}

/** An answer in a row: its description, the schema of its JSON or its media types, and the header fields that it has. */
type Answer = readonly [
  description: string,
  body?: z.ZodType | string | readonly string[] | undefined,
  ...headers: string[],
];

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** The rest of a row: who may call, what is sent, what is answered, and the work. */
interface Row<Query, Body>
  extends Pick<Route, "note" | "everywhere" | "endsLeases" | "bodyMax" | "idempotent" | "conditional" | "refusals"> {
  /** Absent: no token is needed. */
  readonly scope?: Scope | "any";
  readonly query?: Query;
  readonly body?: Body;
  /** The answer with status 200. */
  readonly ok?: Answer;
  /** The answer with status 200 is a page of a list: a description, and the schema of an item. */
  readonly pages?: readonly [description: string, item: z.ZodType];
  /** The answer with status 201. */
  readonly created?: Answer;
  /** The answer with status 204. */
  readonly done?: Answer;
  /** Returns the body of `ok`, or a page for `pages`; with `done` alone its result is not sent. */
  run?(call: Call<Output<Query>, Output<Body>>): unknown;
  /** In place of `run`: returns the whole answer. */
  handle?(call: Call<Output<Query>, Output<Body>>): Promise<RouteResponse> | RouteResponse;
}

/**
 * A route whose handler sees its input as the schemas type it. `http` is the method and the path: below the namespace, or from the root
 * where it begins with a slash.
 */
export function route<
  Query extends z.ZodObject | undefined = undefined,
  Body extends z.ZodObject | undefined = undefined,
>(http: string, summary: string, row: Row<Query, Body>): Route {
  const [method = "", path = ""] = http.split(" ");
  const { scope, query, body, ok, pages, created, done, run, handle, ...rest } = row;
  const page = pages && ([pages[0], listOf(pages[1])] as const);
  const answers = Object.entries({ 200: ok ?? page, 201: created, 204: done });
  const answered = (result: unknown): RouteResponse => {
    if (pages !== undefined) return pageResponse(result as Page);
    return ok === undefined ? { status: 204 } : { status: 200, body: result };
  };
  return {
    ...rest,
    ...{ summary, scope, query, body },
    method: method.toLowerCase() as Route["method"],
    path: path.startsWith("/") ? path : `${NS}/${path}`,
    answers: Object.fromEntries(
      answers.flatMap(([status, answer]) => (answer === undefined ? [] : [[status, describedBy(answer)]])),
    ),
    handle: (handle ??
      (async (call: Call<Output<Query>, Output<Body>>) => answered(await run?.(call)))) as Route["handle"],
  };
}

function describedBy([description, body, ...headers]: Answer): Described {
  const isType = typeof body === "string" || Array.isArray(body);
  return {
    description,
    ...(isType ? { type: body } : given({ schema: body as z.ZodType | undefined })),
    ...(headers.length === 0 ? {} : { headers }),
  };
}

/** The path of a namespace. */
export const NS = "/v1/namespaces/{namespace}";

type Page = readonly unknown[] & { readonly cursor?: string };

/** The page that a query asks for, as the library takes it: the service's default is 100. */
export function pageOf(query: { readonly limit?: number | undefined; readonly cursor?: string | undefined }) {
  return { limit: query.limit ?? 100, ...given({ cursor: query.cursor }) };
}

function pageResponse(page: Page): RouteResponse {
  return { status: 200, body: { items: [...page], ...given({ cursor: page.cursor }) } };
}

function listOf(item: z.ZodType) {
  return z.object({ items: z.array(item), cursor: z.string().optional() });
}
