"""DIAGNOSIS asyncio.pending_forever|blocked.child_process: await proc.communicate() of a child that
waits for a lock file by sleeping for ever.
"""

import asyncio

from _stage import die_with_parent, ready


async def build(target):
    proc = await asyncio.create_subprocess_exec(
        "sleep", "100000", stdout=asyncio.subprocess.PIPE, preexec_fn=die_with_parent
    )
    asyncio.get_running_loop().call_later(0.3, ready)
    out, _ = await proc.communicate()
    return out


async def main():
    return await asyncio.gather(build("docs"))


asyncio.run(main())
