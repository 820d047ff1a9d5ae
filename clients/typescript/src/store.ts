/** Where a device keeps its secret and its reports: texts under names, each step atomic. */

import { type Bytes, hex, SystemSource, unhex } from "./random.js";

export interface Store {
  read(name: string): Promise<string | null>;
  /** Keeps a text unless there is one; returns what is kept, whoever came first. */
  once(name: string, text: string): Promise<string>;
  write(name: string, text: string): Promise<void>;
  remove(name: string): Promise<void>;
  names(): Promise<string[]>;
}

/** A secret that outlasts consents: drawn at the first call, and the same ever after. */
export async function keptSecret(store: Store): Promise<Bytes> {
  const drawn = async () => hex(await new SystemSource().bytes(32));
  const kept = (await store.read("secret")) ?? (await store.once("secret", await drawn()));
  if (!/^[0-9a-f]{64}$/.test(kept)) throw new Error("the kept secret is damaged: remove it");
  return unhex(kept);
}

/** IndexedDB, or localStorage where that is not to be had: one store a name and origin. */
export async function browserStore(name = "hushbeam"): Promise<Store> {
  const local = globalThis.localStorage === undefined ? null : new LocalStore(`${name}\n`);
  // Once a secret is kept in one place, it stays there: a second one would count the user twice.
  if (local !== null && (await local.names()).length) return local;
  try {
    return await IndexedStore.open(name);
  } catch (error) {
    if (local === null) throw error;
    return local;
  }
}

class IndexedStore implements Store {
  private constructor(private readonly database: IDBDatabase) {}

  static open(name: string): Promise<IndexedStore> {
    return new Promise((resolve, reject) => {
      const opening = indexedDB.open(name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("texts");
      opening.onsuccess = () => resolve(new IndexedStore(opening.result));
      opening.onerror = () => reject(opening.error);
    });
  }

  read = (name: string) =>
    this.run<string | undefined>("readonly", (texts) => texts.get(name)).then((it) => it ?? null);
  write = (name: string, text: string) =>
    this.run("readwrite", (texts) => texts.put(text, name)).then(() => undefined);
  remove = (name: string) => this.run("readwrite", (texts) => texts.delete(name));
  names = () => this.run("readonly", (texts) => texts.getAllKeys() as IDBRequest<string[]>);

  async once(name: string, text: string): Promise<string> {
    const held = await this.run<string | undefined>("readwrite", (texts) => {
      const found = texts.get(name);
      found.onsuccess = () => found.result ?? texts.put(text, name); // of the same transaction
      return found;
    });
    return held ?? text;
  }

  /** A transaction, resolved when it is on the disk. */
  private run<T>(
    mode: IDBTransactionMode,
    work: (texts: IDBObjectStore) => IDBRequest<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction("texts", mode, { durability: "strict" });
      const request = work(transaction.objectStore("texts"));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  }
}

/** Web locks keep two tabs apart: localStorage alone does not. */
class LocalStore implements Store {
  constructor(private readonly prefix: string) {}

  read = async (name: string) => localStorage.getItem(this.prefix + name);
  write = async (name: string, text: string) => localStorage.setItem(this.prefix + name, text);
  remove = async (name: string) => localStorage.removeItem(this.prefix + name);

  async names(): Promise<string[]> {
    const all = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
    return all.map((key) => key.slice(this.prefix.length));
  }

  async once(name: string, text: string): Promise<string> {
    const key = this.prefix + name;
    return navigator.locks.request(key, async () => {
      const held = await this.read(name);
      if (held !== null) return held;
      await this.write(name, text);
      // Other processes hear of it some milliseconds later: a tab that waits may not look before.
      const { pending } = await navigator.locks.query();
      const others = pending?.some((lock) => lock.name === key);
      if (others) await new Promise((heard) => setTimeout(heard, 100));
      return text;
    });
  }
}
