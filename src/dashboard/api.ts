import type { Listed, Me } from "./shapes.ts";
import { quoted } from "./words.ts";

export type Query = Readonly<Record<string, string | number | undefined>>;

/** An error that the service answered, or status 0 if it did not answer. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** The wrong places in the request, as JSON pointers. */
  readonly errors: readonly { readonly pointer: string; readonly detail: string }[];

  constructor(status: number, code: string, detail: string, errors: ApiError["errors"]) {
    super(detail);
    this.status = status;
    this.code = code;
    this.errors = errors;
  }
}

/** Calls the service this page came from, with the token if there is one. */
export class Api {
  readonly #token: string | undefined;
  readonly #onUnauthorized: (error: ApiError) => void;

  constructor(token: string | undefined, onUnauthorized: (error: ApiError) => void) {
    this.#token = token;
    this.#onUnauthorized = onUnauthorized;
  }

  get<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> {
    return this.#json("GET", path, query, undefined, signal);
  }

  send<Answer>(
    method: "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    query: Query,
    body?: object,
  ): Promise<Answer> {
    return this.#json(method, path, query, body, undefined);
  }

  /** Sends a request that must not be repeated: a second one with the same key changes nothing. */
  sendOnce<Answer>(path: string, key: string, body: object): Promise<Answer> {
    return this.#json("POST", path, {}, body, undefined, { "idempotency-key": key });
  }

  /** Changes a state that still has this tag, or, without a tag, does not exist. Otherwise the service answers 412. */
  sendIf<Answer>(
    method: "PUT" | "DELETE",
    path: string,
    query: Query,
    etag: string | undefined,
    body?: object,
  ): Promise<Answer> {
    const condition: Record<string, string> = etag === undefined ? { "if-none-match": "*" } : { "if-match": etag };
    return this.#json(method, path, query, body, undefined, condition);
  }

  /** Reads at most `most` items of a list; `more` tells that there are others. */
  async all<Item>(path: string, query: Query, most: number): Promise<{ items: Item[]; more: boolean }> {
    const items: Item[] = [];
    let cursor: string | undefined;
    do {
      const limit = Math.min(1_000, most - items.length);
      const page: Listed<Item> = await this.get(path, { ...query, limit, cursor });
      items.push(...page.items);
      cursor = page.cursor;
    } while (cursor !== undefined && items.length < most);
    return { items, more: cursor !== undefined };
  }

  /** The event stream; rejects like any other call. */
  async events(path: string, query: Query, lastEventId: string | undefined, signal: AbortSignal): Promise<Response> {
    const headers = {
      accept: "text/event-stream",
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
    };
    return this.#answer("GET", path, query, { headers, signal });
  }

  async #json<Answer>(
    method: string,
    path: string,
    query: Query,
    body: object | undefined,
    signal: AbortSignal | undefined,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const init = {
      method,
      headers: { accept: "application/json", ...(body && { "content-type": "application/json" }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    };
    const answer = await this.#answer(method, path, query, init);
    const text = await answer.text();
    return (text === "" ? undefined : JSON.parse(text)) as Answer;
  }

  async #answer(method: string, path: string, query: Query, init: RequestInit): Promise<Response> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
    const headers = new Headers(init.headers);
    // The remedies in errors then name parts of the page, not routes.
    headers.set("zae-limiter-surface", "page");
    if (this.#token !== undefined) headers.set("authorization", `Bearer ${this.#token}`);
    // Encoding leaves `..` as it is, which would lead to another address.
    if (new URL(path, location.origin).pathname !== path) throw new ApiError(400, "id_invalid", "This is no id.", []);
    let answer: Response;
    try {
      answer = await fetch(search === "" ? path : `${path}?${search}`, { ...init, method, headers, cache: "no-store" });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new ApiError(0, "unreachable", "The service does not respond. Is it still running?", []);
    }
    if (answer.ok) return answer;
    const problem = (await answer.json().catch(() => ({}))) as Partial<ApiError> & { detail?: string; title?: string };
    const detail = problem.detail ?? problem.title ?? `The service answered ${answer.status}.`;
    const error = new ApiError(answer.status, problem.code ?? "", detail, problem.errors ?? []);
    if (answer.status === 401) this.#onUnauthorized(error);
    throw error;
  }
}

export function pathOf(namespace: string): string {
  return `/v1/namespaces/${encodeURIComponent(namespace)}`;
}

/** Makes an Idempotency-Key. `crypto.randomUUID` is missing on pages that came over plain HTTP from another host. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A call of this service for a shell. A command of the package would need to know the store. */
export function curl({ me }: { readonly me: Me }, method: string, path: string, body: object | undefined): string {
  const parts = [
    "curl",
    ...(method === "GET" ? [] : [`-X ${method}`]),
    // Without tokens every caller is `local`.
    ...(me.id === "local" ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(body === undefined ? [] : [`-H "Content-Type: application/json" -d ${quoted(JSON.stringify(body))}`]),
    quoted(`${location.origin}${path}`),
  ];
  return parts.join(" ");
}
