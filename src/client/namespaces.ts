import { NotFoundError } from "../domain/errors.ts";
import type { Namespace } from "../domain/namespace.ts";
import type { ServiceCalls } from "./http.ts";
import { type PageOf, pageWithCursor, RemoteListing, type RemoteListOptions } from "./listing.ts";

/** The namespaces of a service, as far as the token has them. */
export class RemoteNamespaces {
  readonly #calls: ServiceCalls;

  constructor(calls: ServiceCalls) {
    this.#calls = calls;
  }

  list(page: RemoteListOptions = {}): RemoteListing<Namespace> {
    return this.#list("/v1/namespaces", page);
  }

  orphans(page: RemoteListOptions = {}): RemoteListing<Namespace> {
    return this.#list("/v1/orphans", page);
  }

  /** There is no route for one: a token knows the names that it has. */
  async get(name: string): Promise<Namespace> {
    for await (const namespace of this.list({ limit: 1_000 })) if (namespace.name === name) return namespace;
    throw new NotFoundError("namespace_not_found", `There is no namespace ${name}, or the token has no access to it.`);
  }

  register(name: string): Promise<Namespace> {
    return this.#calls.json({ method: "POST", path: "/v1/namespaces", body: { name }, isRepeatable: true });
  }

  delete(name: string): Promise<Namespace> {
    return this.#calls.json({ method: "DELETE", path: `/v1/namespaces/${encodeURIComponent(name)}` });
  }

  recover(id: string): Promise<Namespace> {
    return this.#calls.json({ method: "POST", path: `/v1/orphans/${encodeURIComponent(id)}/recover` });
  }

  /** Until all of it is gone: the service works for some seconds at a time. */
  async purge(id: string, onProgress: (records: number) => void): Promise<{ readonly records: number }> {
    for (let records = 0; ; ) {
      const part = await this.#calls.json<{ readonly records: number; readonly done: boolean }>({
        ...{ method: "POST", path: `/v1/orphans/${encodeURIComponent(id)}/purge`, waitMs: PURGE_MS },
      });
      records += part.records;
      onProgress(records);
      if (part.done) return { records };
    }
  }

  #list(path: string, page: RemoteListOptions): RemoteListing<Namespace> {
    return new RemoteListing<Namespace>(
      (each) => this.#calls.json<PageOf<Namespace>>({ method: "GET", path, query: each }),
      page,
      pageWithCursor,
    );
  }
}

const PURGE_MS = 30_000;
