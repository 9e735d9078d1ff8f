"""DIAGNOSIS blocked.child_process|asyncio.pending_forever: await process.communicate() of an
asyncio subprocess (`sleep`) that never ends.
"""

import asyncio

from _stage import die_with_parent, ready


async def main():
    p = await asyncio.create_subprocess_exec(
        "sleep", "1000000", stdout=asyncio.subprocess.PIPE, preexec_fn=die_with_parent
    )
    ready()
    await p.communicate()


asyncio.run(main())
