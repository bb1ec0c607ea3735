import { NotFoundError } from "../domain/errors.ts";
import type { Namespace } from "../domain/namespace.ts";
import type { Listing, ListOptions } from "../engine/listing.ts";
import { bodyFrom } from "./answered-body.ts";
import { checkName } from "./check.ts";
import type { ServiceCalls } from "./http.ts";
import { listed, pageWithCursor } from "./listing.ts";
import { at, type Path } from "./path.ts";

/** The namespaces of a service, as far as the token has them. */
export class RemoteNamespaces {
  readonly #calls: ServiceCalls;

  constructor(calls: ServiceCalls) {
    this.#calls = calls;
  }

  list(page: ListOptions = {}): Listing<Namespace> {
    return this.#list(at`/v1/namespaces`, page);
  }

  orphans(page: ListOptions = {}): Listing<Namespace> {
    return this.#list(at`/v1/orphans`, page);
  }

  /** There is no route for one: a token knows the names that it has. */
  async get(name: string): Promise<Namespace> {
    for await (const namespace of this.list({ limit: 1_000 })) if (namespace.name === name) return namespace;
    throw new NotFoundError("namespace_not_found", `There is no namespace ${name}, or the token has no access to it.`);
  }

  register(name: string): Promise<Namespace> {
    return bodyFrom(this.#calls, "POST", at`/v1/namespaces`, { body: { name } });
  }

  delete(name: string): Promise<Namespace> {
    return bodyFrom(this.#calls, "DELETE", at`/v1/namespaces/${checkName("namespace", name)}`, { repeats: "never" });
  }

  recover(id: string): Promise<Namespace> {
    return bodyFrom(this.#calls, "POST", at`/v1/orphans/${checkName("namespaceId", id)}/recover`, { repeats: "never" });
  }

  /** Until all of it is gone: the service works for some seconds at a time. */
  async purge(id: string, onProgress: (records: number) => void): Promise<{ readonly records: number }> {
    for (let records = 0; ; ) {
      const part = await bodyFrom<{ readonly records: number; readonly done: boolean }>(
        this.#calls,
        "POST",
        at`/v1/orphans/${checkName("namespaceId", id)}/purge`,
        { waitMs: PURGE_MS, repeats: "never" },
      );
      records += part.records;
      onProgress(records);
      if (part.done) return { records };
    }
  }

  #list(path: Path, page: ListOptions): Listing<Namespace> {
    return listed((each) => bodyFrom(this.#calls, "GET", path, { query: each }), page, pageWithCursor);
  }
}

const PURGE_MS = 30_000;
