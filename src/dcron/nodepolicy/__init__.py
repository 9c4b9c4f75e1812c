"""The policy of a node: which accounts, programs and lines it accepts, and the judge of a finished command.

It knows nothing else of dcron, and no database: the policy has to hold against all who write to that.
"""
