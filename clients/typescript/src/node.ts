/** What only Node has: a folder in the place of a browser's storage. */

import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Store } from "./store.js";

/** Files that only their owner may read, in a folder: for any number of processes. */
export class FileStore implements Store {
  constructor(private readonly folder: string) {}

  async read(name: string): Promise<string | null> {
    const path = this.path(name);
    const found = await stat(path).catch(unless("ENOENT"));
    if (found && process.platform !== "win32" && found.mode & 0o077) {
      throw new Error(`${path}: others may read it: chmod 600, or remove it`);
    }
    return (await readFile(path, "utf8").catch(unless("ENOENT"))) ?? null;
  }

  async once(name: string, text: string): Promise<string> {
    // A link is made whole or not at all, and never over another one.
    await this.placed(text, (part) => link(part, this.path(name)).catch(unless("EEXIST")));
    return (await this.read(name)) ?? text;
  }

  write = (name: string, text: string) =>
    this.placed(text, (part) => rename(part, this.path(name)));
  remove = async (name: string) => rm(this.path(name), { force: true });

  async names(): Promise<string[]> {
    const files = (await readdir(this.folder).catch(unless("ENOENT"))) ?? [];
    return files.filter((file) => !file.startsWith("."));
  }

  private path(name: string): string {
    if (!/^[a-z0-9-]+$/.test(name)) throw new Error("a store's names are of a-z, 0-9 and -");
    return join(this.folder, name);
  }

  /** Writes a text to a file of its own, on the disk, and lets it take its place. */
  private async placed(text: string, place: (part: string) => Promise<void>): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const part = join(this.folder, `.${crypto.randomUUID()}`);
    try {
      await writeFile(part, text, { flag: "wx", mode: 0o600, flush: true });
      await place(part);
    } finally {
      await rm(part, { force: true });
    }
  }
}

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
  };
}
