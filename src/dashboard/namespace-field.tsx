import { useId, useState } from "preact/hooks";
import { FormError } from "./form-error.ts";
import { isNamespace } from "./namespace-choice.ts";
import { Select, useSettled } from "./parts.tsx";
import { useAction, useLoaded, useSession } from "./session.tsx";
import type { Listed, Namespace } from "./shapes.ts";

const OFFERED_MAX = 50;
const TYPING_MS = 250;

/** Chooses a namespace: from a list, and where there are more than a list can have, by searching. */
export function NamespaceField() {
  const { namespace, namespaces, choose } = useSession();
  const { names, hasMore } = namespaces;
  const options = (names.includes(namespace) ? names : [namespace, ...names]).map((name) => ({
    value: name,
    label: name,
  }));
  return (
    <>
      <label class="side-field">
        <span>Namespace</span>
        <Select testid="namespace-select" value={namespace} options={options} onChange={choose} />
      </label>
      {hasMore && <NamespaceSearch />}
    </>
  );
}

/** Completes names at the service, however many there are. */
function NamespaceSearch() {
  const { api, choose } = useSession();
  const [text, setText] = useState("");
  const search = useSettled(text.trim(), TYPING_MS);
  const list = useId();
  const { error, run, clear } = useAction();
  const found = useLoaded(
    async (signal) =>
      search === ""
        ? []
        : (await api.get<Listed<Namespace>>("/v1/namespaces", { search, limit: OFFERED_MAX }, signal)).items,
    [search],
    "beside",
  );
  const go = (name: string) =>
    run(async () => {
      if (name === "") return;
      if (!(await isNamespace(api, name)))
        throw new FormError(`There is no namespace ${name}, or the token has no access to it.`);
      setText("");
      choose(name);
    });
  return (
    <form
      class="side-field"
      onSubmit={(event) => {
        event.preventDefault();
        void go(text.trim());
      }}
    >
      <input
        type="search"
        aria-label="Find a namespace"
        data-testid="namespace-search"
        placeholder="Find a namespace"
        list={list}
        value={text}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => {
          clear();
          setText(event.currentTarget.value);
        }}
      />
      <datalist id={list}>
        {found.value?.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {error !== undefined && (
        <small class="bad-text" role="alert" data-testid="namespace-search-error">
          {error.message}
        </small>
      )}
    </form>
  );
}
